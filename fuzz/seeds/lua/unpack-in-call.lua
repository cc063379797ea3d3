function InterpretHealth(o)
  local ok, e = pcall(unpack, {}, -1073741824, 1073741824)
  return #{unpack({}, -2147483648, 2147483647)} == 0
end
