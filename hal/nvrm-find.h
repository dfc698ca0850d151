/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * The objects of another process on NVIDIA's kernel driver: its clients, devices, channel groups and channels
 *
 * The driver answers questions about a client only on the file that the client was made on. Whoever has a copy of that
 * file, by pidfd_getfd(2), may ask; but nothing lists a file's clients, or a client's objects. So they are asked for by
 * number, which takes 2 us each, and nothing is taken for granted that the driver has not confirmed:
 *   - The driver numbers clients itself, counting up from NVRM_CLIENT_FIRST, and starts again behind NVRM_CLIENT_LAST.
 *     A question about each number tells which are of this file.
 *   - The number of an object is its maker's choice. libcuda counts up from the first of sixteen millions, and uses
 *     numbers of freed objects again; the driver tells the number of a client's first device, and so which millions.
 *     Numbers are asked for from the first of these on, until many in a row stand for nothing. The answer is the
 *     object's class, and a second one its parent.
 *
 * Objects with numbers farther away are not found. Finding changes nothing.
 */

#include <stdbool.h>
#include <stddef.h>

#include "hal/nvrm-abi.h"

#define NVRM_CLIENT_FIRST 0xc1d00000U
#define NVRM_CLIENT_LAST  0xc1dfffffU

/* Numbers in a row that stand for nothing, at which the search for objects ends: the first time, and later. */
#define NVRM_MISSES_FIRST 16384U
#define NVRM_MISSES_AGAIN 1024U

typedef struct NvrmFile {
        int (*ioctl)(int fd, unsigned long request, ...); /* as libc's */
        int fd;
} NvrmFile;

typedef struct NvrmFoundClient {
        uint32_t client;
        uint32_t first; /* the number of its objects where the search begins; 0: it has no device yet */
        uint32_t end;   /* behind the last object found, of whatever class */
} NvrmFoundClient;

typedef struct NvrmFoundObject {
        uint32_t client, id, parent, class;
} NvrmFoundObject;

typedef struct NvrmFound {
        NvrmFoundClient *clients;
        size_t n_clients, clients_room;
        NvrmFoundObject *objects; /* devices, subdevices, groups and channels */
        size_t n_objects, objects_room;
} NvrmFound;

void nvrm_found_done(NvrmFound *f);

/* Returns the number that the driver gives to a new client, on a file of our own. */
int nvrm_newest_client(const NvrmFile *own, uint32_t *ret);

/* Whether the client was made on this file. */
bool nvrm_has_client(const NvrmFile *file, uint32_t client);

/* Whether the object is still of that class, and below that parent. */
bool nvrm_has_object(const NvrmFile *file, const NvrmFoundObject *o);

/* Adds the file's clients among the numbers `from` to `to`. Returns how many were added, or a negative errno. */
int nvrm_find_clients(const NvrmFile *file, uint32_t from, uint32_t to, NvrmFound *f);

/* Forgets clients and objects that are gone, and adds new objects of the clients. Returns 0 or a negative errno. */
int nvrm_find_objects(const NvrmFile *file, NvrmFound *f);

const NvrmFoundObject *nvrm_found_object(const NvrmFound *f, uint32_t client, uint32_t id);

/* The object of this class that is the object itself, or the nearest above it. NULL: there is none. */
const NvrmFoundObject *nvrm_found_above(const NvrmFound *f, const NvrmFoundObject *o, uint32_t class);
