#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [DROP] Give a lease back to a server that was restarted, and does not know
-- release.lua: nobody is granted it, for a server that is too young grants
-- nothing (DESIGN L5); who waits looks for itself.
--
-- KEYS    1 the lease
-- ARGV    1 token  2 (of release.lua)  3 how long it stays (ms), or ""
-- 1 it was ours and is gone; 0 it is not ours (not any more)
--include stay.inc
if stays(redis.pcall('GETRANGE', KEYS[1], 0, 767)) then
	return 1
end
--include flock.inc
return drop(ARGV[1]) and 1 or 0
