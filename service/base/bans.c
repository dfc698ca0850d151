/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Bans
 *
 * The list is written as a whole each time. Its form is the kernel's: entries in this order, all numbers little-endian.
 */

#include <endian.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>

#include "bans.h"

/* Entries that every list has, besides those of banned users: for the owner, the group, the mask, and all others. */
#define ENTRIES_REST 4U
#define ACL_NAME     "system.posix_acl_access"

typedef struct AclEntry {
        uint16_t tag, permissions;
        uint32_t id;
} AclEntry;

typedef struct Acl {
        uint32_t version;
        AclEntry entries[BANS_MAX + ENTRIES_REST];
} Acl;

/* The path of the file by its descriptor: another file that was put in its place is not followed. */
static void bans_path(const Bans *b, char *buf, size_t size) {
        (void) snprintf(buf, size, "/proc/self/fd/%d", b->fd);
}

static int open_socket(int fd) {
        struct sockaddr_un a = {0};
        socklen_t size = sizeof(a) - 1;
        struct stat st;

        if (getsockname(fd, (struct sockaddr *) &a, &size) < 0)
                return negative_errno();
        _cleanup_close_ int file = open(a.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (file < 0 || fstat(file, &st) < 0)
                return negative_errno();
        return S_ISSOCK(st.st_mode) ? TAKE_FD(file) : -ENOTSOCK;
}

static AclEntry entry(uint16_t tag, uint16_t permissions, uint32_t id) {
        return (AclEntry){.tag = htole16(tag), .permissions = htole16(permissions), .id = htole32(id)};
}

static int write_list(const Bans *b) {
        const uint16_t all = ACL_READ | ACL_WRITE;
        Acl acl = {.version = htole32(POSIX_ACL_XATTR_VERSION)};
        char path[64];
        unsigned n = 0;

        bans_path(b, path, sizeof(path));
        if (b->n == 0)
                return removexattr(path, ACL_NAME) < 0 ? negative_errno() : 0;
        acl.entries[n++] = entry(ACL_USER_OBJ, all, ACL_UNDEFINED_ID);
        for (unsigned i = 0; i < b->n; i++)
                acl.entries[n++] = entry(ACL_USER, 0, b->all[i].uid);
        acl.entries[n++] = entry(ACL_GROUP_OBJ, all, ACL_UNDEFINED_ID);
        acl.entries[n++] = entry(ACL_MASK, all, ACL_UNDEFINED_ID);
        acl.entries[n++] = entry(ACL_OTHER, all, ACL_UNDEFINED_ID);
        size_t size = offsetof(Acl, entries) + n * sizeof(*acl.entries);
        return setxattr(path, ACL_NAME, &acl, size, 0) < 0 ? negative_errno() : 0;
}

/* An administrator may have given the socket a list. */
static bool has_list(const Bans *b) {
        char path[64];

        bans_path(b, path, sizeof(path));
        return getxattr(path, ACL_NAME, NULL, 0) > 0;
}

void bans_init(Bans *b, int fd) {
        *b = (Bans){.fd = open_socket(fd)};
}

void bans_done(Bans *b) {
        b->fd = safe_close(b->fd);
}

bool bans_has(const Bans *b, uid_t uid) {
        for (unsigned i = 0; i < b->n; i++)
                if (b->all[i].uid == uid)
                        return true;
        return false;
}

bool bans_add(Bans *b, uid_t uid, uid_t user, uint64_t until) {
        unsigned n = 0;

        if (b->fd < 0 || uid == 0 || b->n == BANS_MAX || bans_has(b, uid))
                return false;
        for (unsigned i = 0; i < b->n; i++)
                n += b->all[i].user == user;
        if (n == BANS_USER_MAX || (b->n == 0 && has_list(b)))
                return false;
        b->all[b->n++] = (Ban){.uid = uid, .user = user, .until = until};
        if (write_list(b) >= 0)
                return true;
        b->n--;
        return false;
}

void bans_expire(Bans *b, uint64_t now) {
        unsigned n = 0;

        for (unsigned i = 0; i < b->n; i++)
                if (b->all[i].until > now)
                        b->all[n++] = b->all[i];
        if (n == b->n)
                return;
        b->n = n;
        (void) write_list(b);
}
