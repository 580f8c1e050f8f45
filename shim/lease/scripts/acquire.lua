#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Ask for a lease on a whole file.
--
-- An exclusive lease is one string, SET NX PX (DESIGN L9).  Shared ones are a
-- hash: the field 'dlock' marks it as ours, and each other field is a token
-- with its expiry (the server's clock, ms).
--
-- KEYS[1] the lease.
-- ARGV    1 token  2 ttl (ms)  3 " HOST FILE " of the asker
--         4 since (20 digits) as proof of death (DESIGN L3), or "" for none
--         5 EX or SH
--         6 a token that the asker gives up first (a conversion), or ""
--
-- {1, 0, ''}           granted (also: it was ours already; the ttl is new)
-- {1, 1, ''}           granted; a dead lease of the same host and file is gone
-- {0, ttl left, token} somebody holds it; -1: without a ttl; token '' if it
--                      is longer than any of ours
-- {2, 0, type}         the key is no lease
local key, token, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])

if ARGV[5] == 'EX' and redis.call('SET', key, token, 'NX', 'PX', ttl) then
	return {1, 0, ''}
end

-- Proof of death: an older lease of the same host and file.  "dlock1 RANDOM"
-- ends at byte 39; digits compare as text, for numbers are exact to 2^53 only.
local function here(held)
	return string.sub(held, 1, 7) == 'dlock1 '
	       and string.sub(held, 40, 39 + #ARGV[3]) == ARGV[3]
end
local function dead(held)
	return ARGV[4] ~= '' and here(held)
	       and string.sub(held, 40 + #ARGV[3], 59 + #ARGV[3]) < ARGV[4]
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kind = redis.call('TYPE', key).ok
local replaced = 0

if kind == 'string' then
	-- A foreign value may be of any size (PITFALLS): do not carry it.
	local held = ''
	if redis.call('STRLEN', key) < 768 then
		held = redis.call('GET', key)
	end
	local left = redis.call('PTTL', key)
	if held == token and ARGV[5] == 'EX' then
		redis.call('PEXPIRE', key, ttl)
		return {1, 0, ''}
	end
	-- A downgrade keeps its token, so that it may come twice, or late.
	if held ~= token and (held ~= ARGV[6] or held == '') then
		if not dead(held) then
			return {0, left, held}
		end
		replaced = 1
	end
	redis.call('DEL', key)
	-- A shared kernel lock proves only that nobody has an exclusive one:
	-- the old owner may have downgraded, and be alive.
	if replaced == 1 and ARGV[5] == 'SH' and left > 0 then
		redis.call('HSET', key, 'dlock', '1', held, now + left)
		redis.call('PEXPIRE', key, left)
	end
elseif kind == 'hash' then
	if redis.call('HGET', key, 'dlock') ~= '1' then
		return {2, 0, kind}
	end
	local all, other, mine = redis.call('HGETALL', key), nil, nil
	for i = 1, #all, 2 do
		local held = all[i]
		if held ~= 'dlock' and held ~= token then
			if held == ARGV[6] or (tonumber(all[i + 1]) or math.huge) <= now then
				redis.call('HDEL', key, held)
			elseif ARGV[5] == 'EX' and dead(held) then
				redis.call('HDEL', key, held)
				replaced = 1
			else
				other = held
				if here(held) then
					mine = held
				end
			end
		end
	end
	if ARGV[5] == 'EX' then
		if other then
			return {0, redis.call('PTTL', key), mine or other}
		end
		redis.call('DEL', key)
	end
elseif kind ~= 'none' then
	return {2, 0, kind}
end

if ARGV[5] == 'EX' then
	redis.call('SET', key, token, 'PX', ttl)
else
	redis.call('HSET', key, 'dlock', '1', token, now + ttl)
	if redis.call('PTTL', key) < ttl then
		redis.call('PEXPIRE', key, ttl)
	end
end
return {1, replaced, ''}
