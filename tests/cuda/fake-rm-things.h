/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The objects of fake-rm.c, for its own files, which use them under its lock
 */

#include <stdbool.h>

#include "hal/nvrm-abi.h"

/* An object, which may have several names. */
typedef struct Thing {
        uint32_t class, gpu;
        unsigned n_names;
        unsigned disabled; /* of a channel: how often */
        bool stands;       /* of a channel: though it counts as enabled */
        unsigned refusals; /* to come */
        uint32_t refusal;
        bool scheduled;
        uint64_t slice_usec; /* of a group */
        struct Thing *group; /* of a channel that is in one */
        struct Thing *next;
} Thing;

typedef struct Name {
        uint32_t client, id, parent;
        int file; /* of a client */
        Thing *thing;
        struct Name *next;
} Name;

extern Name *fake_rm_names;

Name *fake_rm_find(uint32_t client, uint32_t id);

static inline bool fake_rm_is_root(uint32_t class) {
        return class == NVRM_CLASS_ROOT || class == NVRM_CLASS_ROOT_CLIENT;
}

/* Questions to a client. The size of their parameters; UINT32_MAX: this is none. */
uint32_t fake_rm_question_size(uint32_t command);
uint32_t fake_rm_question(const Name *client, uint32_t command, void *parameters);
