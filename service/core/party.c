/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Parties
 */

#include "party.h"

/* Skips "/..", with which the kernel begins paths of cgroups outside of our namespace. */
static const char *skip_parents(const char *path) {
        while (startswith(path, "/../"))
                path += 3;
        return path;
}

/* Returns the end of the component that begins at path[n], a slash. */
static size_t component_end(const char *path, size_t n) {
        return path[n] == '\0' ? n : n + 1 + strcspn(path + n + 1, "/");
}

/* FNV-1a. Root has chosen the names. Two names with one hash share a party, which harms no other party. */
static uint64_t hash(const char *s, size_t n) {
        uint64_t h = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < n; i++)
                h = (h ^ (unsigned char) s[i]) * UINT64_C(0x100000001b3);
        return h;
}

PolicyParty party_make(const char *cgroup, uint64_t owner, uint64_t user) {
        const char *path = skip_parents(strempty(cgroup));
        size_t top = component_end(path, 0), n = top;
        bool of_user = false;

        if (top == strlen("/user.slice") && startswith(path, "/user.slice")) {
                n = component_end(path, top);
                of_user = n > top;
        }
        return (PolicyParty){.top = hash(path, n), .owner = of_user ? 0 : owner, .user = user};
}

uint64_t party_join(uint64_t owner, unsigned n, uid_t uid) {
        return n == 0 || owner == uid ? uid : PARTY_SEVERAL;
}
