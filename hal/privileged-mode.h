/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * How a whole process is held from outside, and whether it is
 */

typedef enum PrivilegedMode {
        PRIVILEGED_NO,
        PRIVILEGED_CRIU,     /* AMD: kfd-privileged.h */
        PRIVILEGED_DEBUG,    /* AMD: kfd-privileged.h */
        PRIVILEGED_CHANNELS, /* NVIDIA: nvrm-privileged.h */
        _PRIVILEGED_MODE_MAX,
} PrivilegedMode;

/* "no", "criu", "debug", "channels". */
const char *privileged_mode_to_string(PrivilegedMode v);
int privileged_mode_from_string(const char *s);

typedef enum TargetState {
        TARGET_RUNNING, /* no hold of ours is in force */
        TARGET_HELD,
        TARGET_UNSURE, /* a call and its undo failed */
} TargetState;
