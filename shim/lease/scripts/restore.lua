#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Put a lease back that a restarted server forgot: SET NX PX, as in acquire,
-- whose name must stay unknown to a young server (DESIGN L5).
--
-- KEYS[1] the lease.  ARGV 1 token  2 ttl (ms)
-- OK it is back; nil something else is there
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
