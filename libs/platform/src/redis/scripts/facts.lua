-- The pod in a token, spelled `<pod>/<epoch>`.
local function podOf(token)
  return string.match(token, '^(.*)/%d+$')
end

-- The server's clock, ms since 1970: one clock for all pods.
local function nowMs()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
