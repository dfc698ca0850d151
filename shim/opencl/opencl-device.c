/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Names of devices
 *
 * The PCI address where the runtime tells it, by whichever of three vendor extensions; otherwise the names of platform
 * and device, and the position among the devices of that name in the platform's own list, which is the same in every
 * process that sees the same devices.
 */

#include <ctype.h>
#include <stdio.h>

#include "shim/opencl/opencl-device.h"

/* From the vendors' extensions, which the headers of older distributions lack. */
#define DEVICE_PCI_BUS_INFO_KHR 0x410FU
#define DEVICE_PCI_BUS_ID_NV    0x4008U
#define DEVICE_PCI_SLOT_ID_NV   0x4009U
#define DEVICE_PCI_DOMAIN_ID_NV 0x400AU
#define DEVICE_TOPOLOGY_AMD     0x4037U
#define TOPOLOGY_TYPE_PCIE_AMD  1U
#define VENDOR_ID_NVIDIA        0x10DEU

typedef struct PciBusInfo {
        cl_uint domain, bus, device, function;
} PciBusInfo;

typedef struct TopologyAmd {
        cl_uint type;
        cl_char unused[17], bus, device, function;
} TopologyAmd;

_Static_assert(sizeof(TopologyAmd) == 24, "as in cl_amd_device_attribute_query");

static bool device_get(cl_device_id device, cl_device_info what, void *ret, size_t size) {
        size_t got = 0;
        return opencl_next.clGetDeviceInfo(device, what, size, ret, &got) == CL_SUCCESS && got == size;
}

/* Walks up from a sub-device. The depth is bounded against a runtime that answers nonsense. */
static cl_device_id device_root(cl_device_id device) {
        for (unsigned depth = 0; depth < 16; depth++) {
                cl_device_id parent = NULL;
                if (!device_get(device, CL_DEVICE_PARENT_DEVICE, &parent, sizeof(parent)) || !parent)
                        break;
                device = parent;
        }
        return device;
}

static bool device_pci(cl_device_id device, PciBusInfo *ret) {
        PciBusInfo pci;
        if (device_get(device, DEVICE_PCI_BUS_INFO_KHR, &pci, sizeof(pci))) {
                *ret = pci;
                return true;
        }

        cl_uint bus, slot, domain = 0;
        if (device_get(device, DEVICE_PCI_BUS_ID_NV, &bus, sizeof(bus)) &&
                        device_get(device, DEVICE_PCI_SLOT_ID_NV, &slot, sizeof(slot))) {
                /* NVIDIA's slot is device and function in one, as in PCI configuration space. */
                (void) device_get(device, DEVICE_PCI_DOMAIN_ID_NV, &domain, sizeof(domain));
                *ret = (PciBusInfo){.domain = domain, .bus = bus, .device = slot >> 3, .function = slot & 7};
                return true;
        }

        TopologyAmd amd;
        if (device_get(device, DEVICE_TOPOLOGY_AMD, &amd, sizeof(amd)) && amd.type == TOPOLOGY_TYPE_PCIE_AMD) {
                *ret = (PciBusInfo){
                                .bus = (unsigned char) amd.bus,
                                .device = (unsigned char) amd.device,
                                .function = (unsigned char) amd.function,
                };
                return true;
        }
        return false;
}

/* "AMD Ryzen 9 (x)" becomes "amd-ryzen-9-x": lower case, digits, dots, and single dashes in place of all else. */
static void slug(const char *name, char *ret, size_t size) {
        size_t n = 0;
        for (const unsigned char *p = (const unsigned char *) name; *p && n + 1 < size; p++) {
                if (*p < 0x80 && (isalnum(*p) || *p == '.'))
                        ret[n++] = (char) tolower(*p);
                else if (n > 0 && ret[n - 1] != '-')
                        ret[n++] = '-';
        }
        while (n > 0 && ret[n - 1] == '-')
                n--;
        ret[n] = '\0';
        if (n == 0)
                (void) snprintf(ret, size, "unknown");
}

static void device_name(cl_device_id device, char *ret, size_t size) {
        if (opencl_next.clGetDeviceInfo(device, CL_DEVICE_NAME, size, ret, NULL) != CL_SUCCESS)
                ret[0] = '\0';
        ret[size - 1] = '\0';
}

/* How many devices of the same name come before this one. */
static unsigned device_position(cl_platform_id platform, cl_device_id device, const char *name) {
        cl_uint n = 0;
        if (opencl_next.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n) != CL_SUCCESS || n == 0)
                return 0;
        _cleanup_free_ cl_device_id *all = calloc(n, sizeof(cl_device_id));
        if (!all || opencl_next.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n, all, NULL) != CL_SUCCESS)
                return 0;

        unsigned position = 0;
        for (cl_uint i = 0; i < n && all[i] != device; i++) {
                char other[OPENCL_DEVICE_ID_MAX];
                device_name(all[i], other, sizeof(other));
                position += streq(other, name);
        }
        return position;
}

void opencl_device_describe(cl_device_id device, OpenclDevice *ret) {
        OpenclDevice d = {};
        device = device_root(device);
        device_name(device, d.name, sizeof(d.name));

        cl_device_type type = 0;
        (void) device_get(device, CL_DEVICE_TYPE, &type, sizeof(type));
        d.is_cpu = type & CL_DEVICE_TYPE_CPU;
        cl_uint vendor = 0;
        d.is_nvidia = device_get(device, CL_DEVICE_VENDOR_ID, &vendor, sizeof(vendor)) && vendor == VENDOR_ID_NVIDIA;

        PciBusInfo pci;
        if (device_pci(device, &pci)) {
                (void) snprintf(d.id, sizeof(d.id), "pci:%04x:%02x:%02x.%x", pci.domain & 0xFFFFFFFF, pci.bus & 0xFF,
                                pci.device & 0x1F, pci.function & 7);
                *ret = d;
                return;
        }

        cl_platform_id platform = NULL;
        char platform_name[OPENCL_DEVICE_ID_MAX] = "", platform_slug[100], device_slug[100];
        if (device_get(device, CL_DEVICE_PLATFORM, &platform, sizeof(platform)))
                (void) opencl_next.clGetPlatformInfo(
                                platform, CL_PLATFORM_NAME, sizeof(platform_name) - 1, platform_name, NULL);
        slug(platform_name, platform_slug, sizeof(platform_slug));
        slug(d.name, device_slug, sizeof(device_slug));
        (void) snprintf(d.id, sizeof(d.id), "opencl:%s:%s:%u", platform_slug, device_slug,
                        device_position(platform, device, d.name));
        *ret = d;
}
