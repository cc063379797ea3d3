-- sparkoperator.k8s.io SparkApplication

local units = { k = 1 / 1024, m = 1, g = 1024, t = 1024 * 1024 }

-- Spark's 512m and 2g mean mebibytes and gibibytes; returns mebibytes.
local function mebibytes(text)
    if text == nil then
        return nil
    end
    local amount, unit = tostring(text):lower():match("^%s*([%d%.]+)%s*([kmgt]?)i?b?%s*$")
    if amount == nil then
        error("memory " .. tostring(text) .. " is none that Spark knows")
    end
    return tonumber(amount) * (units[unit] or 1 / (1024 * 1024))
end

-- Memory with Spark's overhead: the configured one, or a share of the memory, at least 384 MiB.
local function memory(object, of)
    local base = mebibytes(of.memory)
    if base == nil then
        return nil
    end
    local overhead = mebibytes(of.memoryOverhead)
    if overhead == nil then
        local language = at(object, "spec", "type")
        local factor = tonumber(at(object, "spec", "memoryOverheadFactor"))
            or ((language == "Java" or language == "Scala") and 0.1 or 0.4)
        overhead = math.max(base * factor, 384)
    end
    return tostring(math.ceil(base + overhead)) .. "Mi"
end

local function requirements(object, of)
    local found = needs({ spec = { affinity = of.affinity, nodeSelector = of.nodeSelector, tolerations = of.tolerations } }) or {}
    local request = { memory = memory(object, of) }
    local cores = of.coreRequest or of.cores
    if cores ~= nil then
        request.cpu = kube.resourceAdd(tostring(cores))
    end
    if at(of, "gpu", "name") ~= nil then
        request[of.gpu.name] = tostring(number(of.gpu.quantity))
    end
    found.resourceRequest = next(request) ~= nil and request or nil
    return next(found) ~= nil and found or nil
end

function GetComponents(desiredObj)
    local driver, executor = at(desiredObj, "spec", "driver") or {}, at(desiredObj, "spec", "executor") or {}
    return {
        { name = "driver", replicas = 1, replicaRequirements = requirements(desiredObj, driver) },
        { name = "executor", replicas = number(executor.instances or 1), replicaRequirements = requirements(desiredObj, executor) },
    }
end

function InterpretHealth(observedObj)
    local state = at(observedObj, "status", "applicationState", "state")
    return filled(state) and state ~= "FAILED"
end

-- Worst first.
local order = {
    "FAILED",
    "SUBMISSION_FAILED",
    "FAILING",
    "INVALIDATING",
    "UNKNOWN",
    "PENDING_RERUN",
    "PENDING_SUBMISSION",
    "SUBMITTED",
    "RUNNING",
    "SUCCEEDING",
    "COMPLETED",
}

function AggregateStatus(desiredObj, statusItems)
    local list = reports(statusItems)
    add_up(desiredObj, statusItems, { "executionAttempts", "submissionAttempts" })
    local status, executors, found = desiredObj.status, {}, nil
    for _, item in ipairs(list) do
        for name, state in pairs(item.status.executorState or {}) do
            executors[name] = state
        end
    end
    for _, wanted in ipairs(order) do
        for _, item in ipairs(list) do
            if found == nil and at(item.status, "applicationState", "state") == wanted then
                found = item.status.applicationState
            end
        end
    end
    status.applicationState = found or status.applicationState
    status.executorState = next(executors) ~= nil and executors or status.executorState
    status.lastSubmissionAttemptTime = pick_time(statusItems, "lastSubmissionAttemptTime") or status.lastSubmissionAttemptTime
    status.terminationTime = pick_time(statusItems, "terminationTime") or status.terminationTime
    return desiredObj
end

function ReflectStatus(observedObj)
    return observedObj.status or {}
end
