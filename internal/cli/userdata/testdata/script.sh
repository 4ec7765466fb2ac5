#!/bin/bash
sysctl -w vm.nr_hugepages=512
