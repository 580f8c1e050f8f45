#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [RELEASE] Give a lease back: compare and delete; who waits is next.
--
-- KEYS    1 the lease  2 its queue
-- ARGV    1 token  2 "fair" and "interop", or ""
-- 1 it was ours and is gone; 0 it is not ours (not any more)
--
-- STRLEN first: a foreign value may be of any size, and a key of another type
-- is an error, which is no number either.
if redis.call('EXISTS', KEYS[2]) == 0
   and redis.pcall('STRLEN', KEYS[1]) == #ARGV[1]
   and redis.call('GET', KEYS[1]) == ARGV[1] then
	return redis.call('DEL', KEYS[1])
end
--include flock.inc
local gone = drop(ARGV[1])
if redis.call('EXISTS', key) == 0 then
	pcall(serve, 'none', ARGV[2]) -- it is gone, whatever is at the queue
end
return gone and 1 or 0
