-- What the holder of a claim may write, and the fence in front of it.
-- A writing: one step's journal entries and events, numbered by `seq`.
local function take_writing()
  return { seq = take_number(), moves = take_flag(), entries = take_list(), first = take_number(),
    count = take_number(), events = take() }
end

-- The run's facts when this claim holds it; else nil and the reply that says so. Equality, not order: a claim id
-- stays right after a failover that lost writes.
local function fenced(run, claim)
  local facts = load(run)
  if not facts then return nil, { 'lost', '' } end
  if facts.state ~= 'running' or facts.claim ~= claim then return nil, { 'lost', facts.state }, facts end
  return facts
end

-- The state in which this very call left the run, when it is a repeat whose reply was lost.
local function repeated(facts, claim, kind, seq)
  if facts and facts.past_claim == claim and facts.past_kind == kind and facts.past_seq == int(seq) then
    return facts.past_state
  end
  return nil
end

-- A reply when the writing does not follow what the store has.
local function gap(facts, writing)
  if writing.seq ~= facts.seq + 1 then return { 'gap', 'seq', int(facts.seq + 1), int(writing.seq) } end
  if writing.first >= 0 and writing.first ~= facts.next then
    return { 'gap', 'index', int(facts.next), int(writing.first) }
  end
  return nil
end

-- The event that ends the claim leaves in one batch with those before it.
local function add_event(writing, event)
  writing.events = writing.count > 0 and writing.events .. ',' .. event or event
  writing.count = writing.count + 1
end

local function append(run, facts, writing)
  for _, entry in ipairs(writing.entries) do redis.call('RPUSH', key('j', run), entry) end
  if writing.count > 0 then emit(run, facts, writing.events, writing.count) end
  set(run, 'seq', int(writing.seq))
  if writing.moves and facts.losses > 0 then
    facts.losses = 0
    set(run, 'losses', '0')
  end
end

-- The invocation is over: its running time counts until `till`, and a repeat of the call is known by `past_*`.
local function leave(run, facts, kind, seq, till)
  set(run, 'ran', int(facts.ran + math.max(0, till - facts.claimed)), 'past_claim', facts.claim, 'past_kind', kind,
    'past_seq', int(seq))
end

local function left(run, facts)
  set(run, 'past_state', facts.state)
end
