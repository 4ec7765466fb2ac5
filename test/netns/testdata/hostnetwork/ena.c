// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Makes links of type veth answer ethtool as those of the driver ena do: they have that driver, and a permanent MAC
// address. Network files match links by both. The dynamic linker loads this into the programs under test (LD_PRELOAD).

#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

typedef int ioctl_function(int, unsigned long, ...);

int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  ioctl_function *kernel = (ioctl_function *)dlsym(RTLD_NEXT, "ioctl");
  int result = kernel(fd, request, argument);
  if (request != SIOCETHTOOL || result != 0) return result;

  struct ifreq *question = argument;
  struct ethtool_drvinfo *driver = (void *)question->ifr_data;
  if (driver->cmd == ETHTOOL_GDRVINFO && strcmp(driver->driver, "veth") == 0) strcpy(driver->driver, "ena");

  struct ethtool_perm_addr *permanent = (void *)question->ifr_data;
  struct ifreq current = {0};
  memcpy(current.ifr_name, question->ifr_name, IFNAMSIZ);
  if (permanent->cmd == ETHTOOL_GPERMADDR && permanent->size == 6 && kernel(fd, SIOCGIFHWADDR, &current) == 0)
    memcpy(permanent->data, current.ifr_hwaddr.sa_data, 6);
  return result;
}
