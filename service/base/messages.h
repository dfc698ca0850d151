/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Message ids: what `journalctl MESSAGE_ID=...` finds
 *
 * One for each event that an administrator may want to find, count or have explained. An id never changes its meaning.
 * Each has an entry in units/xsched.catalog and a line in xschedd(8); a test compares the three.
 */

/* The service is up. */
#define MESSAGE_STARTED "33b4dd7864324bfc9e88058a32467fe5"

/* The service goes down in order. */
#define MESSAGE_STOPPED "d5806b40284f4e868fba3676c31649fd"

/* A line or file of the configuration was not applied. */
#define MESSAGE_CONFIG_PROBLEM "6aabf4ab9f604647a02033d478817e63"

/* The configuration was read again. */
#define MESSAGE_RELOADED "8a8c1774124f412593589417fcce6dfb"

/* A process registered. */
#define MESSAGE_CLIENT_ADDED "2e0387fe670b4342a0d5a41baaf865d3"

/* A process ended or was disconnected. */
#define MESSAGE_CLIENT_GONE "72c922b8e3164c1cbd4b8529846f0fe6"

/* A registered process was put into another cgroup. */
#define MESSAGE_CLIENT_MOVED "4cce5e70d2e9461fba128f3587858300"

/* A process could not register. */
#define MESSAGE_CLIENT_REFUSED "4c39aa4304634de6aefe9c3aca27d210"

/* A user's or a client's quota was reached. */
#define MESSAGE_QUOTA "abc468c317ca4d6d85f743a9cb665ea1"

/* Clients were taken over from before a restart. */
#define MESSAGE_ADOPTED "43336a65f4744c2693241f64468d18a4"

/* A client could not be taken over. */
#define MESSAGE_ADOPT_FAILED "1e97d7c3d7e3440b964d792ec090ff8a"

/* A group, client or queue was suspended. */
#define MESSAGE_SUSPENDED "8393b7b32de04fa6bac4fc13815138fe"

/* It was resumed. */
#define MESSAGE_RESUMED "fec4eb7266c348109b3439b905f859d0"

/* A suspended unit was frozen. */
#define MESSAGE_FROZEN "5cd0be82a3d84369af56fd5f43707937"

/* It was thawed. */
#define MESSAGE_THAWED "b0eded4caff044a288549f37497da83d"

/* Settings were changed at run time. */
#define MESSAGE_SETTINGS_CHANGED "85404cfde15345b18f5adefc89d27115"

/* A device got another policy or parameters. */
#define MESSAGE_POLICY_CHANGED "7d53592a71494d5890e8ccae4a1e327a"

/* Held processes ran because their leases ran out. */
#define MESSAGE_LEASE_EXPIRED "0bf9240c737a468bbde4dd51b33a6476"

/* A client broke the protocol and was cut off. */
#define MESSAGE_HOSTILE_CLIENT "096d05dc57154d489f1e394165b25148"

/* A file of stored settings or totals could not be read, or was not valid. */
#define MESSAGE_STATE_BAD "5b3f0c1e9d8846c2a1f7e6d4b3c2a190"

/* Something does not work as configured. */
#define MESSAGE_DEGRADED "9ab4517f46204907a690b7948bb32476"

/* A hold by privilege failed, or was left behind and undone. */
#define MESSAGE_PRIVILEGED "836f420853c340bea55b2f9a06aff2b2"

/* A group that had used GPUs ended: what it used. */
#define MESSAGE_GROUP_ENDED "a92e9df7555545c6a63ea3c2b63219f5"
