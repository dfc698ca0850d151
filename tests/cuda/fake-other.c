/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A library of somebody else's: its name is all that matters. */

int fake_other(void);

int fake_other(void) {
        return 0;
}
