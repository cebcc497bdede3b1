-- Shared by every script. KEYS[1] is what the keys of one shard begin with (their hash tag is in it, so that the
-- server knows the slot); a few scripts of the whole fleet name their one key there.
-- ARGV: log batches, first look (ms), control channel prefix, then the script's own.
local PREFIX = KEYS[1]
local cursor = 3

local function take()
  cursor = cursor + 1
  return ARGV[cursor]
end

local function take_number()
  return tonumber(take())
end

local function take_flag()
  return take() == '1'
end

-- '' stands for "absent" wherever an empty text means nothing.
local function take_optional()
  local value = take()
  if value == '' then return false end
  return value
end

local function take_list()
  local list = {}
  for place = 1, take_number() do list[place] = take() end
  return list
end

-- Never let a number become text by itself: 1764426000000 would be written 1.764426e+12.
local function int(number)
  return string.format('%.0f', number)
end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local SECONDS = string.format('%s.%03d', clock[1], math.floor(tonumber(clock[2]) / 1000))

local function key(kind, name)
  return PREFIX .. kind .. ':' .. name
end

local DUE, OPEN, GONE = PREFIX .. 'due', PREFIX .. 'open', PREFIX .. 'gone'
local json = cjson.encode  -- for single texts only: whole documents are carried as they came

local TEXTS = {
  'state', 'claim', 'digest', 'queue', 'priority', 'thread', 'tenant', 'plan_id', 'plan_name', 'previous', 'cancel',
  'expired', 'held', 'past_claim', 'past_kind', 'past_seq', 'past_state', 'trace',
}
local NUMBERS = {
  'seq', 'next', 'created', 'eta', 'expires', 'attempt', 'losses', 'offers', 'offered', 'reoffers', 'claimed', 'lease',
  'beat', 'ran', 'started',
}
local FIELDS = {}
for _, name in ipairs(TEXTS) do FIELDS[#FIELDS + 1] = name end
for _, name in ipairs(NUMBERS) do FIELDS[#FIELDS + 1] = name end

-- The facts of a run that decide what may happen to it; an absent field is false. nil when there is no record.
local function load(run)
  local values = redis.call('HMGET', key('r', run), unpack(FIELDS))
  if not values[1] then return nil end
  local facts = {}
  for place, name in ipairs(FIELDS) do
    local value = values[place]
    if value and place > #TEXTS then value = tonumber(value) end
    facts[name] = value
  end
  return facts
end
