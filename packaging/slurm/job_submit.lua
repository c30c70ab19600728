-- Holds batch jobs for Cohabit, for as long as its lease runs. Copy it beside slurm.conf, set LEASE, and have
-- JobSubmitPlugins=lua in slurm.conf. Without a lease, or when it is over, every job goes to plain Slurm at once.
--
-- The lease is one line: until when (Unix time), the partitions, separated by commas, and whom Cohabit runs as (uid).
-- This runs inside slurmctld and holds its locks: it reads that one small local file (and, for jobs with
-- mates, one more beside it) and asks nobody.

local LEASE = "/var/lib/cohabit/lease"
local HELD = "cohabit:held"
local OPEN = HELD .. ":open" -- its owner named no largest number of nodes: some versions do not tell that afterwards
local TYPES = { compute = true, network = true, io = true } -- of work, in a comment: cohabit:type=io

-- The partitions that are steered now, as a set, and by which uid; nil: none.
local function steered_partitions()
  local file = io.open(LEASE, "r")
  if file == nil then return nil end
  local line = file:read("*l") or ""
  file:close()
  local till, names, uid = line:match("^(%d+) (%S+) (%d+)")
  if till == nil or os.time() >= tonumber(till) then return nil end
  local found = {}
  for name in names:gmatch("[^,]+") do found[name] = true end
  return found, tonumber(uid)
end

local function partition_of(job_desc, part_list)
  if job_desc.partition ~= nil and job_desc.partition ~= "" then return job_desc.partition end
  for name, part in pairs(part_list) do
    if part.flag_default == 1 then return name end
  end
  return ""
end

-- Where programs of mates wait for each other, if the site has a threshold: the address and the program, or nil.
local function threshold()
  local file = io.open(LEASE .. ".threshold", "r")
  if file == nil then return nil end
  local address, program = (file:read("*l") or ""):match("^(%S+) (%S+)")
  file:close()
  return address, program
end

-- So many random bytes in hexadecimal digits.
local function random(bytes)
  local file = assert(io.open("/dev/urandom", "rb"))
  local digits = file:read(bytes):gsub(".", function(one) return string.format("%02x", one:byte()) end)
  file:close()
  return digits
end

function slurm_job_submit(job_desc, part_list, submit_uid)
  local steered = steered_partitions()
  if steered == nil or not steered[partition_of(job_desc, part_list)] then return slurm.SUCCESS end
  if job_desc.script == nil or job_desc.script == "" then return slurm.SUCCESS end -- salloc, srun
  if job_desc.priority == 0 then return slurm.SUCCESS end -- its owner wants it held: not ours
  job_desc.priority = 0
  local kind = (job_desc.comment or ""):match("cohabit:type=([^%s,;]*)")
  if kind ~= nil and not TYPES[kind] then
    slurm.log_user("cohabit:type=%s is not known and counts as not stated: write compute, network or io", kind:sub(1, 40))
  end
  -- Jobs that start together with others elsewhere: sbatch --comment=cohabit:mates=NAME
  local mates = (job_desc.comment or ""):match("cohabit:mates=([%w._-]+)")
  if mates ~= nil and #mates > 60 then mates = nil end
  local held = job_desc.max_nodes == slurm.NO_VAL and OPEN or HELD
  job_desc.admin_comment = mates and held .. "@" .. mates or held
  if mates == nil then return slurm.SUCCESS end
  local address, program = threshold()
  if address then -- it is the interpreter of the script, and becomes the one its owner named; scripts are private
    local first = "#!" .. program .. " " .. address .. " " .. random(16) .. " "
    job_desc.script = job_desc.script:gsub("^#!%s*", function() return first end, 1)
  end
  return slurm.SUCCESS
end

-- A job that waits for Cohabit is held, so a hold by its owner would change nothing: it is written into the comment (an
-- owner may not write the mark), and a release takes it out. An administrator's hold is seen in Slurm's own records.
local WORD = "cohabit:hold"

local function with_word(comment)
  return (" " .. comment .. " "):find(" " .. WORD .. " ", 1, true) ~= nil
end

-- Set the owner's comment without the word; an empty text would leave it as it is.
local function take_word_out(job_desc, comment)
  if not with_word(comment) then return end
  local rest = (" " .. comment .. " "):gsub(" cohabit:hold ", " ", 1):match("^%s*(.-)%s*$")
  job_desc.comment = rest == "" and " " or rest
end

-- A job that waits for Cohabit is not released by its owner. What its owner or an administrator held, and now lets go of,
-- waits for Cohabit again. (A job its owner had held at submission cannot become ours here: it goes to plain Slurm.)
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  local priority, mark, comment = job_desc.priority, job_rec.admin_comment or "", job_rec.comment or ""
  if priority == nil or priority == slurm.NO_VAL or not mark:find("^cohabit:[hr]") then return slurm.SUCCESS end
  local steered, uid = steered_partitions()
  if steered == nil or not steered[job_rec.partition] then return slurm.SUCCESS end
  local manages = modify_uid == 0 or modify_uid == uid
  if priority == 0 then
    if not manages and not with_word(comment) then
      job_desc.comment = comment == "" and WORD or comment .. " " .. WORD
    end
    return slurm.SUCCESS
  end
  if job_rec.priority ~= 0 then return slurm.SUCCESS end
  local flag = mark:match("%+(%a+)")
  if manages and (flag == "hold" or flag == "noted") then
    job_desc.admin_comment = mark:gsub("%+%a+", "+free", 1)
    take_word_out(job_desc, comment)
  elseif manages and with_word(comment) then
    job_desc.priority = slurm.NO_VAL
    slurm.log_user("this job stays held: its owner holds it")
    return slurm.SUCCESS
  elseif manages then
    return slurm.SUCCESS
  elseif with_word(comment) then
    take_word_out(job_desc, comment)
  else
    local why = flag == "hold" and "this job is held: `cohabit release` lets go of it"
      or "this job waits for Cohabit, which decides when and where it starts (cohabit why " .. job_rec.job_id .. ")"
    slurm.log_user(why)
    return slurm.ESLURM_ACCESS_DENIED or slurm.ERROR
  end
  job_desc.priority = slurm.NO_VAL
  slurm.log_user("this job is not held any more: Cohabit decides when and where it starts")
  return slurm.SUCCESS
end

return slurm.SUCCESS
