-- Look at what is due in a shard, and do what each run needs: nothing is decided outside this script.
local limit, max_attempts, reoffer_after, cap = take_number(), take_number(), take_number(), take_number()
local ttl, quiet, hold, sent = take_number(), take_number(), take_number(), tonumber(take())
local waiting_since = {}
for _ = 1, take_number() do
  local queue, priority = take(), take_number()
  waiting_since[queue .. '|' .. priority] = take_number()
end
local everywhere, looked, unseen = take_flag(), {}, {}
for _, queue in ipairs(take_list()) do looked[queue] = true end

-- A server that hung meets, when it goes on, what was sent to it before: leases have run out that nobody could renew.
-- So a sweep that arrives late, or does not know when it was sent, does nothing but say what time it is.
local late = quiet > 0 and (not sent or now - sent > quiet / 4)
if late then return { {}, {}, { '0', '0', '0', '0', '0' }, int(now), '1', {}, {} } end

local SERVER, DAY = PREFIX .. 'server', 86400000
local offers, ended, lost = {}, {}, {}
local count = { lost = 0, expired = 0, failed = 0, decided = 0 }

local function finish(run, facts, state, payload)
  end_with(run, facts, state, payload, ttl)
  ended[#ended + 1] = { run, state, facts.thread, facts.plan_name }
  if count[state] then count[state] = count[state] + 1 end
end

local function patience(times)
  return math.min(reoffer_after * 2 ^ math.min(times, 30), cap)
end

-- Since when (ms) this very server has answered for the shard: it started, or took over from another that failed. The
-- shard remembers whom it saw, and when first; one that nobody swept for a day has no lease to spare.
local function answering_since()
  local info = redis.pcall('INFO', 'server')
  if type(info) ~= 'string' then return 0 end
  local uptime = tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  local since = uptime and now - uptime * 1000 or 0
  local id = string.match(info, 'run_id:(%w+)')
  if not id then return since end
  local seen, at = string.match(redis.call('GET', SERVER) or '', '^(%w+)|(%d+)$')
  if seen ~= id or redis.call('PTTL', SERVER) < DAY / 2 then
    at = seen == id and at or seen and int(now) or '0'
    redis.call('SET', SERVER, id .. '|' .. at, 'PX', int(DAY))
  end
  return math.max(since, tonumber(at))
end

-- How long (ms) leases are still left alone, so that owners who were cut off from the server renew them first.
local grace = quiet > 0 and math.max(0, hold, answering_since() + quiet - now) or hold

local sweep = {}

function sweep.running(run, facts)
  if overdue(facts) and not facts.expired then
    facts.expired = '1'
    set(run, 'expired', '1')
    redis.call('PUBLISH', CONTROL .. run, '{"expired":true}')
  end
  if facts.lease > now then return look(run, facts, facts.lease) end
  if grace > 0 then return look(run, facts, now + grace) end
  count.lost = count.lost + 1
  local task, worker = unpack(redis.call('HMGET', key('r', run), 'task', 'worker'))
  local failure = ''
  leave(run, facts, 'lose', 0, facts.beat)
  set(run, 'losses', int(facts.losses + 1))
  local state, payload = recorded_end(facts)
  if state then
    finish(run, facts, state, payload)
  elseif facts.losses + 1 >= max_attempts then
    failure = 'WorkerLost: ' .. int(facts.losses + 1)
      .. ' workers in a row were lost while they ran this, without progress; see their logs, then retry the run'
    set(run, 'error', failure)
    finish(run, facts, 'failed', '"error":' .. json(failure))
  else
    offers[#offers + 1] = requeue(run, facts, 'lose', 'lost')
  end
  if task then lost[#lost + 1] = { run, task, worker or '', facts.state, int(facts.offers), failure } end
end

function sweep.queued(run, facts)
  if overdue(facts) then
    local state, payload = recorded_end(facts)
    return finish(run, facts, state, payload)
  end
  if facts.eta and facts.eta > now then return look(run, facts, facts.eta) end
  if facts.offers == 0 and not facts.held then
    offers[#offers + 1] = next_offer(run, facts, patience(0))  -- its eta has come
    return
  end
  local lost_at = facts.offered + patience(facts.reoffers)
  if lost_at > now then return look(run, facts, lost_at) end
  if not everywhere and not looked[facts.queue] then
    unseen[facts.queue] = true
    return look(run, facts, now + reoffer_after)
  end
  -- First in, first out: a message that is no older than the oldest in its queue has not been reached yet. Offering
  -- it again would make a long backlog longer.
  local oldest = waiting_since[facts.queue .. '|' .. facts.priority]
  if oldest and facts.offered >= oldest then return look(run, facts, now + patience(facts.reoffers)) end
  set(run, 'reoffers', int(facts.reoffers + 1))
  offers[#offers + 1] = next_offer(run, facts, patience(facts.reoffers + 1))
end

function sweep.parked(run, facts)
  if not overdue(facts) then return look(run, facts, nil) end
  local state, payload = recorded_end(facts)
  finish(run, facts, state, payload)
end

function sweep.paused(run, facts)
  if overdue(facts) then return sweep.parked(run, facts) end
  local list, late = people_of(run), {}
  for _, each in ipairs(list) do
    if not each.decision and each.expires and each.expires <= now then
      if not each.default then
        local reason = 'nobody decided interrupt ' .. each.id .. ' in time'
        return finish(run, facts, 'expired', '"reason":' .. json(reason))
      end
      late[#late + 1] = each
    end
  end
  for _, each in ipairs(late) do decide(run, facts, each, each.default, 'expiry', nil) end
  count.decided = count.decided + #late
  local message = settle(run, facts, list)
  if message then offers[#offers + 1] = message end
end

local function names(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  return list
end

local due = redis.call('ZRANGEBYSCORE', DUE, '-inf', int(now), 'LIMIT', 0, limit)
for _, run in ipairs(due) do
  local facts = load(run)
  if facts and sweep[facts.state] then
    sweep[facts.state](run, facts)
  else
    redis.call('ZREM', DUE, run)
  end
end

-- Ended runs whose retention is over leave the indexes that still name them.
for _, member in ipairs(redis.call('ZRANGEBYSCORE', GONE, '-inf', int(now), 'LIMIT', 0, limit)) do
  local run, state, tenant = string.match(member, '^(.-)|(.-)|(.*)$')
  if redis.call('EXISTS', key('r', run)) == 1 then
    redis.call('ZADD', GONE, int(now + 1000), member)
  else
    redis.call('ZREM', PREFIX .. 's:' .. state, run)
    if tenant ~= '' then redis.call('ZREM', PREFIX .. 't:' .. tenant, run) end
    redis.call('ZREM', GONE, member)
  end
end

return { offers, ended, { int(count.lost), int(count.expired), int(count.failed), int(count.decided),
  #due == limit and '1' or '0' }, int(now), '0', lost, names(unseen) }
