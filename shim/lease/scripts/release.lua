#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Give a lease back: compare and delete.
--
-- KEYS[1] the lease.  ARGV 1 token.
-- 1 it was ours and is gone; 0 it is not ours (not any more)
-- STRLEN first: a foreign value may be of any size, and a key of another type
-- is an error, which is no number either.
if redis.pcall('STRLEN', KEYS[1]) == #ARGV[1]
   and redis.call('GET', KEYS[1]) == ARGV[1] then
	return redis.call('DEL', KEYS[1])
end
return 0
