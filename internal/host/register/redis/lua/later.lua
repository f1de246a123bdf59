-- later compares two strings of the same length by bytes, as < does not in every locale.
local function later(a, b)
  for i = 1, #a do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x > y end
  end
  return false
end
