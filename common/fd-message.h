/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * Messages on a Unix socket that carry descriptors
 */

#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>

/* A type with room for the `n` descriptors of one message. */
#define FD_MESSAGE_SPACE(n)                                                                                            \
        union {                                                                                                        \
                struct cmsghdr align;                                                                                  \
                char space[CMSG_SPACE(sizeof(int) * (n))];                                                             \
        }

/* Returns a header for recvmsg() or sendmsg() of one part. The caller owns the memory that it points to. */
static inline struct msghdr fd_message(struct iovec *part, void *control, size_t control_size) {
        return (struct msghdr){
                        .msg_iov = part,
                        .msg_iovlen = 1,
                        .msg_control = control,
                        .msg_controllen = control_size,
        };
}

/* Calls f() for each descriptor that came with a message; f() may change *fd in the message. */
static inline void fd_message_each(struct msghdr *h, void (*f)(int *fd, void *userdata), void *userdata) {
        for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                unsigned char *data = CMSG_DATA(c);
                size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < n; i++, data += sizeof(int)) {
                        int fd;
                        memcpy(&fd, data, sizeof(fd));
                        f(&fd, userdata);
                        memcpy(data, &fd, sizeof(fd));
                }
        }
}
