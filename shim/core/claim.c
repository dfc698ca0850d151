/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Claims: a class for as long as a descriptor is open
 *
 * Made on a connection of the calling thread's own, which waits for the answer: the caller has to know whether it has
 * the class.
 */

#include <fcntl.h>

#include "common/macro.h"
#include "link-open.h"
#include "link.h"
#include "shim/core/client.h"

DEFINE_TRIVIAL_CLEANUP_FUNC(Dbus *, dbus_close);
DEFINE_TRIVIAL_CLEANUP_FUNC(DbusMessage *, dbus_message_free);

_public_
int xsched_hold_priority(const char *class_name, const char *reason, uint64_t flags) {
        PROTECT_ERRNO;
        _cleanup_(dbus_writer_done)
        DbusWriter w = DBUS_WRITER_NULL;
        _cleanup_(dbus_closep)
        Dbus *bus = NULL;
        _cleanup_(dbus_message_freep)
        DbusMessage *reply = NULL;
        DbusReader body;

        if (isempty(class_name))
                return -EINVAL;
        if (client_environment()->disabled)
                return -ENOTCONN;
        int r = link_open_bus(client_environment()->bus_address, &bus);
        if (r < 0)
                return r;
        link_begin_call(&w, "HoldPriority", "sst");
        dbus_write_string(&w, class_name);
        dbus_write_string(&w, strempty(reason));
        dbus_write_u64(&w, flags);
        r = dbus_call_and_wait(bus, &w, LINK_CALL_TIMEOUT_NS, &reply);
        if (r < 0)
                return r == -EREMOTEIO ? -EPERM : r;
        if (!dbus_message_read(reply, "h", &body))
                return -EBADMSG;
        int fd = dbus_read_fd(&body);
        if (body.bad)
                return -EBADMSG;
        int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        return copy < 0 ? negative_errno() : copy;
}
