/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What fake-rm.c answers about its objects
 */

#include "fake-rm-things.h"

static uint32_t handle_info(const Name *client, NvrmHandleInfo *a) {
        const Name *n = fake_rm_find(client->client, a->object);

        if (!n)
                return NVRM_OBJECT_NOT_FOUND;
        if (a->what == NVRM_HANDLE_INFO_PARENT)
                a->result = n->parent;
        else if (a->what == NVRM_HANDLE_INFO_CLASS)
                a->result = n->thing->class;
        else
                return NVRM_INVALID_ARGUMENT;
        return NVRM_OK;
}

static uint32_t child_handle(const Name *client, NvrmChildHandle *a) {
        if (!fake_rm_find(client->client, a->parent))
                return NVRM_OBJECT_NOT_FOUND;
        uint32_t class = a->class == NVRM_CHILD_DEVICE ? NVRM_CLASS_DEVICE
                        : a->class == NVRM_CHILD_GROUP ? NVRM_CLASS_CHANNEL_GROUP
                                                       : UINT32_MAX;
        a->object = 0;
        /* The first one that was made is the last of the list. */
        for (const Name *n = fake_rm_names; n; n = n->next)
                if (n->client == client->client && n->parent == a->parent && n->thing->class == class)
                        a->object = n->id;
        return a->object != 0 ? NVRM_OK : NVRM_OBJECT_NOT_FOUND;
}

uint32_t fake_rm_question_size(uint32_t command) {
        return command == NVRM_CMD_CLIENT_GET_HANDLE_INFO             ? sizeof(NvrmHandleInfo)
                        : command == NVRM_CMD_CLIENT_GET_CHILD_HANDLE ? sizeof(NvrmChildHandle)
                        : command == NVRM_CMD_GPU_GET_PCI_INFO        ? sizeof(NvrmPciInfo)
                                                                      : UINT32_MAX;
}

uint32_t fake_rm_question(const Name *client, uint32_t command, void *parameters) {
        if (command == NVRM_CMD_CLIENT_GET_HANDLE_INFO)
                return handle_info(client, parameters);
        if (command == NVRM_CMD_CLIENT_GET_CHILD_HANDLE)
                return child_handle(client, parameters);
        NvrmPciInfo *pci = parameters;
        pci->domain = pci->slot = 0;
        pci->bus = (uint16_t) (0xa0 + (pci->gpu_id >> 8) - 1);
        return NVRM_OK;
}
