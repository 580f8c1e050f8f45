# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# On host A there are processes with very many descriptors, so that a look at all
# processes takes long.

# crowd NAME N: so many processes, each with as many descriptors as any may have; they
# are looked at one after the other.
crowd()
{
	peer "$1" on A /usr/bin/python3 -c '
import os, resource, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
end, ours = os.pipe()
null = os.open("/dev/null", os.O_RDONLY)
for i in range(min(most, 20000) - 64):
    os.dup(null)
for i in range(int(sys.argv[1]) - 1):
    if not os.fork():
        os.close(ours)
        os.read(end, 1)
        os._exit(0)
print("are there", flush=True)
sys.stdin.readline()' "$2"
	hear "$1" 30
}
