#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [RELEASE] Give ranges back, or make readers of writers: within a window, the
-- owner has what the list says, and never more than it had.  So it may come
-- twice.  The whole list of an owner is that of the window from 0 to the end.
-- Who waits for what is free now is granted it.
--
-- KEYS    1 the lease  2 its ranges  3 its queue
-- ARGV    1 token  2 sequence number (20 digits)
--         3 start, end of the window (19 digits each)
--         4 type, start, end of each range in it, in order
--         5 "fair" and "interop", or ""
--
-- {1, ''}               done
-- {0, ''}               the owner holds nothing (any more)
-- {2, sequence number}  a later request was here first, and nothing changed;
--                       or this was too much for one call, and not all is
--                       done: in both cases again, with a greater number
if ARGV[4] == '' and ARGV[3] == '00000000000000000009223372036854775807'
   and redis.call('EXISTS', KEYS[3]) == 0 then
	local len = redis.pcall('STRLEN', KEYS[1])
	if len == #ARGV[1] and redis.call('GET', KEYS[1]) == ARGV[1] then
		redis.call('DEL', KEYS[1])
		return { 1, '' }
	elseif type(len) == 'number' then
		return { 0, '' }
	end
end
--include records_queue.inc
local waits = redis.call('EXISTS', queue) == 1
--include records_set.inc
local done = set()
pcall(grant_next, ARGV[5]) -- it is done, whatever is at the queue
return done
