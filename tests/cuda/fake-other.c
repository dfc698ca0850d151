/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Another project's library: only its name matters. */

int fake_other(void);

int fake_other(void) {
        return 0;
}
