/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Exit statuses of programs that run a command, as env(1), timeout(1) and others have them: the command's own stay
 * recognisable
 */

enum {
        EXIT_OURS = 125,
        EXIT_CANNOT_EXEC = 126,
        EXIT_NO_COMMAND = 127,
};
