function InterpretHealth(o)
  local t = {}
  for _, k in ipairs({-2147483648, 2147483647, 2147483648, 4294967296, 9007199254740993, 1e308, -1e308, 1/0, -1/0}) do
    t[k] = k
    t[k] = t[k] and nil
    t[k] = {t[k], next(t)}
  end
  return #t == table.maxn(t)
end
