-- How a run moves between states, and what moves with it: indexes, due time, offers, events, TTLs.
local LOG_BATCHES, FIRST_LOOK, CONTROL = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local function set(run, ...)
  redis.call('HSET', key('r', run), ...)
end

local function allowed(event, state)
  return MOVES[event][state]
end

local function enter(run, facts, event)
  local to = MOVES[event][facts.state]
  redis.call('ZREM', PREFIX .. 's:' .. facts.state, run)
  redis.call('ZADD', PREFIX .. 's:' .. to, int(facts.created), run)
  set(run, 'state', to, 'changed', int(now))
  facts.state = to
end

-- One entry in `due` per non-terminal run: when somebody must look at it next (nil: nothing is awaited).
local function look(run, facts, at)
  if facts.expires and not facts.expired and (not at or facts.expires < at) then at = facts.expires end
  redis.call('ZADD', DUE, at and int(at) or '+inf', run)
end

local function overdue(facts)
  return facts.expired or (facts.expires and facts.expires <= now)
end

-- Append a batch of `count` events (JSON objects joined by commas) to the log and publish the same bytes.
-- The entry's id is 0-(last index + 1), so that an index is a position in the log. (PUBLISH: scripts.py.)
local function emit(run, facts, events, count)
  local batch = '[' .. events .. ']'
  facts.next = facts.next + count
  redis.call('XADD', key('e', run), 'MAXLEN', '~', LOG_BATCHES, '0-' .. int(facts.next), 'b', batch)
  set(run, 'next', int(facts.next))
  redis.call(PUBLISH, key('e', run), batch)
end

-- An event that the fleet itself makes; `payload` is JSON without its braces.
local function emit_own(run, facts, kind, payload)
  emit(run, facts, '{"run_id":' .. json(run) .. ',"index":' .. int(facts.next) .. ',"kind":"' .. kind .. '","time":'
    .. SECONDS .. ',' .. payload .. '}', 1)
end

-- A run that never started is still part of the trace that it was enqueued in; a later message has its own cause.
local function offer(run, facts)
  return { run, int(facts.offers), facts.queue, facts.priority, facts.thread, facts.plan_id, facts.digest,
    facts.plan_name, facts.previous == 'new' and facts.trace }
end

-- The next offer number. Due is when its message counts as lost.
local function next_offer(run, facts, wait)
  facts.offers = facts.offers + 1
  set(run, 'offers', int(facts.offers), 'offered', int(now))
  redis.call('HDEL', key('r', run), 'held')
  look(run, facts, now + wait)
  return offer(run, facts)
end

-- Make a run claimable and give its offer.
local function requeue(run, facts, event, previous)
  enter(run, facts, event)
  facts.previous = previous
  set(run, 'previous', previous, 'reoffers', '0', 'ready', int(now))
  redis.call('HDEL', key('r', run), 'claim', 'lease')
  return next_offer(run, facts, FIRST_LOOK)
end

local function gone_member(run, facts)
  return run .. '|' .. facts.state .. '|' .. (facts.tenant or '')
end

-- TTLs start here and nowhere else. `gone` remembers when the index entries of this run are to be dropped.
local function terminate(run, facts, event, ttl)
  enter(run, facts, event)
  set(run, 'ended', int(now))
  redis.call('HDEL', key('r', run), 'claim', 'lease', 'held', 'missing', 'parked')
  redis.call('ZREM', DUE, run)
  redis.call('ZREM', OPEN, run)
  redis.call('ZADD', GONE, int(now + ttl), gone_member(run, facts))
  for _, kind in ipairs({ 'r', 'j', 'e', 'i' }) do redis.call('PEXPIRE', key(kind, run), int(ttl)) end
end

-- The end that was recorded before anything else could be: its state and its event's payload, or nil.
local function recorded_end(facts)
  if facts.cancel then return 'cancelled', '"reason":' .. json(facts.cancel) end
  if overdue(facts) then return 'expired', '"reason":"expires passed"' end
  return nil
end

local function end_with(run, facts, state, payload, ttl)
  emit_own(run, facts, state == 'failed' and 'error' or state, payload)
  terminate(run, facts, ENDINGS[state], ttl)
end
