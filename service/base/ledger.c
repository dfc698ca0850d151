/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A ledger in a memfd
 */

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/write-all.h"
#include "ledger.h"

#define LEDGER_HEADER_SIZE UINT64_C(16)
#define LEDGER_SLACK       (UINT64_C(64) * 1024)
#define LEDGER_SIZE_MAX    (UINT64_C(64) * 1024 * 1024)

static int write_header(const Ledger *j, uint64_t begin, uint64_t end) {
        const uint64_t header[2] = {begin, end};

        return write_all_at(j->fd, header, sizeof(header), 0);
}

int ledger_new(const char *name, Ledger *ret) {
        Ledger j = {
                        .begin = LEDGER_HEADER_SIZE,
                        .end = LEDGER_HEADER_SIZE,
        };

        j.fd = memfd_create(name, MFD_CLOEXEC);
        if (j.fd < 0)
                return negative_errno();
        int r = write_header(&j, j.begin, j.end);
        if (r < 0) {
                ledger_done(&j);
                return r;
        }
        *ret = j;
        return 0;
}

int ledger_open(int fd, Ledger *ret) {
        uint64_t header[2];
        struct stat st;

        if (fstat(fd, &st) < 0)
                return negative_errno();
        if (pread(fd, header, sizeof(header), 0) != (ssize_t) sizeof(header))
                return -EBADMSG;
        if (header[0] < LEDGER_HEADER_SIZE || header[1] < header[0] || header[1] > (uint64_t) st.st_size ||
                        header[1] - header[0] > LEDGER_SIZE_MAX)
                return -EBADMSG;
        *ret = (Ledger){.fd = fd, .begin = header[0], .end = header[1], .base_size = header[1] - header[0]};
        return 0;
}

void ledger_done(Ledger *j) {
        safe_close(j->fd);
        *j = LEDGER_NULL;
}

int ledger_append(Ledger *j, json_object *record) {
        size_t size;
        const char *text = json_object_to_json_string_length(record, JSON_C_TO_STRING_PLAIN, &size);

        if (!text)
                return -ENOMEM;
        uint64_t at = j->compact_end ?: j->end;
        int r = write_all_at(j->fd, text, size, at);
        if (r >= 0)
                r = write_all_at(j->fd, "\n", 1, at + size);
        if (r < 0)
                return r;
        if (j->compact_end != 0) {
                j->compact_end = at + size + 1;
                return 0;
        }
        r = write_header(j, j->begin, at + size + 1);
        if (r < 0)
                return r;
        j->end = at + size + 1;
        return 0;
}

bool ledger_is_bloated(const Ledger *j) {
        return j->end - j->begin > 2 * j->base_size + LEDGER_SLACK;
}

void ledger_begin(Ledger *j) {
        j->compact_end = j->end;
}

void ledger_abort(Ledger *j) {
        j->compact_end = 0;
}

/* Gives the pages before the first valid record back to the kernel, except the page of the header. A failure only costs
 * memory. */
static void give_back(const Ledger *j) {
        uint64_t hole = j->begin & ~UINT64_C(4095);

        if (hole > 4096)
                (void) fallocate(j->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, (off_t) hole - 4096);
}

static int set_valid(Ledger *j, uint64_t begin, uint64_t end) {
        int r = write_header(j, begin, end);
        if (r < 0)
                return r;
        j->begin = begin;
        j->end = end;
        j->base_size = end - begin;
        give_back(j);
        return 0;
}

int ledger_commit(Ledger *j) {
        uint64_t end = j->compact_end;

        j->compact_end = 0;
        return set_valid(j, j->end, end);
}

int ledger_forget(Ledger *j, uint64_t before) {
        return set_valid(j, before, j->end);
}

int ledger_read(const Ledger *j, ledger_record_t record, void *userdata) {
        size_t size = (size_t) (j->end - j->begin);
        _cleanup_free_ char *text = malloc(size + 1);

        if (!text)
                return -ENOMEM;
        ssize_t n = pread(j->fd, text, size, (off_t) j->begin);
        if (n < 0)
                return negative_errno();
        if ((size_t) n != size)
                return -EBADMSG;
        text[size] = '\0';

        for (char *line = text, *next; *line; line = next) {
                next = strchr(line, '\n');
                if (!next)
                        break;
                *next++ = '\0';
                json_object *o = json_tokener_parse(line);
                if (!o)
                        continue;
                int r = record(o, userdata);
                json_object_put(o);
                if (r < 0)
                        return r;
        }
        return 0;
}
