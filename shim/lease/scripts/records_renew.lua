#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Carry an owner's lease on: compare and expire; never re-create (DESIGN L5).
-- [RESUME] One that lingers though it has expired, if none of its ranges was
-- granted to anybody since (linger.inc).
--
-- KEYS    1 the lease  2 its ranges; or none, of who has one string: while a slot
--           of a cluster moves, what has all its keys on one side is answered
-- ARGV    1 token  2 ttl (ms)  3 how it lingers, or '' or none
--         4 "alike": of several servers, are they?  or none
--
-- {1, "SEQUENCE N"}  renewed: the owner's last request here, and how many
--             ranges it has; if these are 500 at most and it was asked for,
--             " DIGEST" of them, 16 digits
-- {0, token}  another's; '' if it is longer than any of ours or no lease
-- {-1, ''}    there is none
local function digest_of(members)
	return ARGV[4] and #members <= 500
	       and ' ' .. string.sub(redis.sha1hex(table.concat(members)), 1, 16)
	       or ''
end

local len = redis.pcall('STRLEN', KEYS[1])
if type(len) == 'number' and len > 0 then
	local held = len < 768 and redis.call('GET', KEYS[1]) or ''
	if held == ARGV[1] then
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
		return { 1, '00000000000000000001 1' .. digest_of({
			'O' .. string.sub(held, 8, 39) .. string.rep('0', 19)
			.. '9223372036854775807W' }) }
	end
	return { 0, held }
end
--include records.inc
local kind, me = kind_of(id_of(ARGV[1]))

if kind == 'hash' and not ranges_key then
	return redis.error_reply('TRYAGAIN it has ranges')
elseif kind == 'none' then
	return { -1, '' }
elseif kind ~= 'hash' then
	return { 0, '' }
end
-- Its process has become another program (execve(2)), which has adopted it: the
-- younger one.  (An older one was put back before us by who kept it, after a
-- restart; and what it has of another file of that name is another lock.)
if not me then
	local process = string.sub(id_of(ARGV[1]), 1, 16)
	local of, since = string.match(ARGV[1], '^dlock1 %S+( %S+ %S+ )(%d+)')
	of, since = of or ' ', since or ''
	for _, other in ipairs(redis.call('HKEYS', key)) do
		local o = string.sub(other, 1, 16) == process and owner(other)
		if o and o.expiry > now and o.since > since and o.since < NEVER
		   and here(o.token, of) then
			return { 0, o.token }
		end
	end
end
local lingering = me and lingers(ARGV[3] ~= '' and ARGV[3] or nil)
-- Expired but not swept yet: another request may be on its way.
if not me or me.expiry <= now
	     and not resumes(me.expiry, me.lingering, lingering) then
	return { -1, '' }
end
me.expiry, me.lingering = now + tonumber(ARGV[2]), lingering
set_owner(me)
live_until(me.expiry, lingering)
local first, last = '[O' .. me.id, '[O' .. me.id .. ':'
return { 1, me.seq .. ' ' .. redis.call('ZLEXCOUNT', ranges_key, first, last)
	    .. digest_of(ARGV[4] and redis.call('ZRANGEBYLEX', ranges_key,
		first, last, 'LIMIT', 0, 501) or {}) }
