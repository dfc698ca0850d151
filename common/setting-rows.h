/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The settings of groups, clients and queues: one row each, and the only list of them
 *
 * From these rows come the enum and the struct of service/settings/settings.h, how files and the bus are read, what is
 * kept, explained and logged, the properties of groups and clients, and the keys of `xschedctl set`, with which tests
 * compare the completions and the manual pages. A file that includes the rows gives a macro
 *
 *     ROW(arg, KEY, Name, name, field, TYPE, min, max, usual, LOWERS, INHERITS, WHOSE, HOME, range)
 *
 * and uses the columns that it needs:
 *
 *     KEY       SETTINGS_KEY is its SettingsKey
 *     Name      on the bus, in files and in what is kept
 *     name      what xschedctl calls it
 *     field     of Settings, and of what it resolves to
 *     TYPE      INT, UINT, PERCENT, LIMIT (a percentage, or infinity), USEC (a time span), BOOL, PREEMPTION,
 *               ACCOUNTING, CLASS (a name)
 *     min, max  in the unit of the bus; of numbers only
 *     usual     the default
 *     LOWERS    SMALLER; SMALLER_LIMIT, where 0 is no limit; LATER, where 0 is never; FURTHER, a preemption; EXACTER,
 *               an accounting; NO; UNUSED, any value while there is neither a Max nor a Min; NEVER
 *     INHERITS  FROM_ABOVE: a group inherits it from the cgroups above; OWN: it does not
 *     WHOSE     ANYBODY: groups, clients and queues; GROUPS
 *     HOME      what it resolves to is a field of PolicySettings: POLICY; or of SettingsResolved itself: SERVICE
 *     range     what a value has to be, for an error message: "Weight must be ..."
 *
 * The order is that of Explain() and of what is kept, by name. The includer brings the constants.
 */

/* clang-format off */
#define SETTING_ROWS(ROW, arg)                                                                              \
        ROW(arg, PRIORITY, Priority, priority, priority, INT,                                               \
            POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX, POLICY_PRIORITY_DEFAULT,                              \
            SMALLER, FROM_ABOVE, ANYBODY, POLICY,                                                           \
            "an integer, -255..255")                                                                        \
        ROW(arg, WEIGHT, Weight, weight, weight, UINT,                                                      \
            POLICY_WEIGHT_MIN, POLICY_WEIGHT_MAX, POLICY_WEIGHT_DEFAULT, SMALLER, OWN, ANYBODY, POLICY,     \
            "an integer, 1..10000")                                                                         \
        ROW(arg, THRESHOLD, Threshold, threshold, threshold, UINT,                                          \
            0, SETTINGS_THRESHOLD_MAX, 0, SMALLER_LIMIT, FROM_ABOVE, ANYBODY, POLICY,                       \
            "an integer, 0..65535")                                                                         \
        ROW(arg, PREEMPTION, Preemption, preemption, preemption, PREEMPTION,                                \
            0, 0, PREEMPTION_AUTO, FURTHER, FROM_ABOVE, ANYBODY, POLICY,                                    \
            "auto, off, 1, 2, 3 or privileged")                                                             \
        ROW(arg, GANG, Gang, gang, gang, BOOL,                                                              \
            0, 1, false, NO, FROM_ABOVE, ANYBODY, POLICY,                                                   \
            "a boolean, yes or no")                                                                         \
        ROW(arg, DEADLINE, Deadline, deadline, deadline_us, USEC,                                           \
            0, POLICY_DELAY_MAX / NSEC_PER_USEC, 0, LATER, FROM_ABOVE, ANYBODY, POLICY,                     \
            "a time span, up to 1h, or 0 for none")                                                         \
        ROW(arg, LAXITY, Laxity, laxity, laxity_us, USEC,                                                   \
            0, POLICY_DELAY_MAX / NSEC_PER_USEC, 0, LATER, FROM_ABOVE, ANYBODY, POLICY,                     \
            "a time span, up to 1h, or 0 for ever")                                                         \
        ROW(arg, CRITICAL, Critical, critical, critical, INT,                                               \
            POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX, POLICY_PRIORITY_DEFAULT,                              \
            SMALLER, FROM_ABOVE, ANYBODY, POLICY,                                                           \
            "an integer, -255..255")                                                                        \
        ROW(arg, UTILIZATION, Utilization, utilization, utilization, PERCENT,                               \
            1, POLICY_UTILIZATION_MAX, POLICY_UTILIZATION_MAX, SMALLER, FROM_ABOVE, ANYBODY, POLICY,        \
            "a percentage, 1..100")                                                                         \
        ROW(arg, ACTIVE, Active, active, active, BOOL,                                                      \
            0, 1, false, NO, FROM_ABOVE, ANYBODY, POLICY,                                                   \
            "a boolean, yes or no")                                                                         \
        ROW(arg, MAX, Max, max, max, LIMIT,                                                                 \
            0, POLICY_MAX_MAX, 0, SMALLER_LIMIT, OWN, GROUPS, POLICY,                                       \
            "a percentage, 1..10000, or 0 (infinity) for no limit")                                         \
        ROW(arg, MIN, Min, min, min, PERCENT,                                                               \
            0, POLICY_MIN_MAX, 0, SMALLER, OWN, GROUPS, POLICY,                                             \
            "a percentage, 0..100")                                                                         \
        ROW(arg, PERIOD, Period, period, period_us, USEC,                                                   \
            POLICY_PERIOD_MIN / NSEC_PER_USEC, POLICY_PERIOD_MAX / NSEC_PER_USEC,                           \
            POLICY_PERIOD_DEFAULT / NSEC_PER_USEC,                                                          \
            UNUSED, OWN, GROUPS, POLICY,                                                                    \
            "a time span, 1ms..10s")                                                                        \
        ROW(arg, ACCOUNTING, Accounting, accounting, accounting, ACCOUNTING,                                \
            0, 0, ACCOUNTING_AUTO, EXACTER, FROM_ABOVE, GROUPS, SERVICE,                                    \
            "auto, exact, sampled or off")                                                                  \
        ROW(arg, CLASS, Class, class, class, CLASS,                                                         \
            0, 0, "", NEVER, FROM_ABOVE, ANYBODY, SERVICE,                                                  \
            "the name of a class, letters, digits, '.', '_' and '-'")
/* clang-format on */

/* By WHOSE: what clients have, too. */
#define SETTING_IF_ANYBODY(...) __VA_ARGS__
#define SETTING_IF_GROUPS(...)
#define SETTING_UNLESS_ANYBODY(...)
#define SETTING_UNLESS_GROUPS(...) __VA_ARGS__

/* "Priority", ... */
#define SETTING_OF_GROUP(arg, KEY, Name, ...) #Name,
#define SETTING_OF_CLIENT(arg, KEY, Name, name, field, TYPE, min, max, usual, LOWERS, INHERITS, WHOSE, ...)            \
        SETTING_IF_##WHOSE(#Name, )

/* By TYPE: the type on the bus. */
#define SETTING_SIGNATURE_INT        "i"
#define SETTING_SIGNATURE_UINT       "u"
#define SETTING_SIGNATURE_PERCENT    "u"
#define SETTING_SIGNATURE_LIMIT      "u"
#define SETTING_SIGNATURE_USEC       "t"
#define SETTING_SIGNATURE_BOOL       "b"
#define SETTING_SIGNATURE_PREEMPTION "s"
#define SETTING_SIGNATURE_ACCOUNTING "s"
#define SETTING_SIGNATURE_CLASS      "s"
