function InterpretHealth(o)
  local f, t = ipairs({})
  f(t, 2147483647)
  f(t, -2147483648)
  f(t, 1e308)
  local g = ('abc'):gmatch('()')
  for i = 1, 9 do g(1e308) end
  local list = {3, 1, 2}
  pcall(table.sort, list, function() list = nil return true end)
  pcall(next, {}, -2147483648)
  return true
end
