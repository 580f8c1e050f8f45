#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [RELEASE] Give a lease back: compare and delete; who waits is next.
--
-- KEYS    1 the lease  2 its queue
-- ARGV    1 token  2 "fair" and "interop", or ""
--         3 how long it stays (ms; hold_at_least), or ""
-- 1 it was ours and is gone; 0 it is not ours (not any more)
--
-- A foreign value may be of any size, and a key of another type is an error,
-- which is no string.
local held = redis.pcall('GETRANGE', KEYS[1], 0, 767)
--include stay.inc
if stays(held) then
	return 1
end
local ends = redis.pcall('HMGET', KEYS[2], 'head', 'tail')
if held == ARGV[1] and not ends.err and not ends[1] then
	redis.call('DEL', KEYS[1], KEYS[2])
	return 1
end
-- [GRANT NEXT] The first one, a writer that lives and hears it, is the next: as
-- below, without all that it takes.
if held == ARGV[1] and not ends.err and ARGV[2] ~= 'interop'
   and ARGV[2] ~= 'fair interop' then
	local head, time = ends[1], redis.call('TIME')
	local expiry, life, tag, channel, number, claim = string.match(
		redis.call('HGET', KEYS[2], head) or '',
		'^(%d+) (%d+) ({?[@-O]*}?)(%x+)%.(%d+) EX (.*)$')
	if claim and tonumber(expiry) > time[1] * 1000 + time[2] / 1000
	   and redis.pcall(tag == '' and 'PUBLISH' or 'SPUBLISH',
			   'dlock%wake:' .. tag .. channel, 'granted ' ..
			   string.sub(claim, 8, 39) .. ' ' .. number) ~= 0 then
		redis.call('SET', KEYS[1], claim, 'PX', life)
		if head == ends[2] then
			redis.call('DEL', KEYS[2])
		else
			redis.call('HDEL', KEYS[2], head)
			redis.call('HINCRBY', KEYS[2], 'head', 1)
		end
		return 1
	end
end
--include flock.inc
local gone = drop(ARGV[1])
if held() == 'none' then
	-- It is gone, whatever is at the queue.
	pcall(grant_next, 'none', ARGV[2])
end
return gone and 1 or 0
