/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Authorisation where polkit is not asked
 */

#include "auth-table.h"
#include "auth.h"

static const char *const auth_action_table[_AUTH_ACTION_MAX] = {
                [AUTH_REGISTER] = "org.xsched.register",
                [AUTH_MANAGE_OWN] = "org.xsched.manage-own",
                [AUTH_MANAGE] = "org.xsched.manage",
                [AUTH_SUSPEND] = "org.xsched.suspend",
};
DEFINE_STRING_TABLE_TO_STRING(auth_action, AuthAction);

bool auth_decide(AuthAction action, uid_t sender, uid_t owner, uid_t service) {
        if (sender == 0 || sender == service)
                return true;
        switch (action) {
        case AUTH_REGISTER:
                return true;
        case AUTH_MANAGE_OWN:
                return owner != UID_NONE && sender == owner;
        default:
                return false;
        }
}
