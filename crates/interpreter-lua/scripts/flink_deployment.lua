-- flink.apache.org FlinkDeployment

-- Flink's 2048m means mebibytes; in Kubernetes m means thousandths.
local function memory(text)
    if text == nil then
        return nil
    end
    local amount, unit = tostring(text):lower():match("^%s*([%d%.]+)%s*(%a*)$")
    local units = { k = "Ki", kb = "Ki", m = "Mi", mb = "Mi", g = "Gi", gb = "Gi", t = "Ti", tb = "Ti", b = "", [""] = "" }
    if amount ~= nil and units[unit] ~= nil then
        return amount .. units[unit]
    end
    return text
end

local function requirements(object, manager)
    local of = at(object, "spec", manager) or {}
    local pod = at(of, "podTemplate", "spec") or at(object, "spec", "podTemplate", "spec") or {}
    local found = needs({ spec = { affinity = pod.affinity, nodeSelector = pod.nodeSelector, tolerations = pod.tolerations } }) or {}
    local cpu = at(of, "resource", "cpu")
    found.resourceRequest = {
        cpu = cpu ~= nil and kube.resourceAdd(tostring(cpu)) or nil,
        memory = memory(at(of, "resource", "memory")),
    }
    if next(found.resourceRequest) == nil then
        found.resourceRequest = nil
    end
    return next(found) ~= nil and found or nil
end

local function task_managers(object)
    local replicas = tonumber(at(object, "spec", "taskManager", "replicas"))
    if replicas ~= nil then
        return replicas
    end
    local parallelism = number(at(object, "spec", "job", "parallelism"))
    local slots = number(at(object, "spec", "flinkConfiguration", "taskmanager.numberOfTaskSlots"))
    if parallelism <= 0 then
        return 1
    end
    return math.ceil(parallelism / (slots > 0 and slots or 1))
end

local function job_managers(object)
    return number(at(object, "spec", "jobManager", "replicas") or 1)
end

function GetComponents(desiredObj)
    return {
        { name = "jobmanager", replicas = job_managers(desiredObj), replicaRequirements = requirements(desiredObj, "jobManager") },
        { name = "taskmanager", replicas = task_managers(desiredObj), replicaRequirements = requirements(desiredObj, "taskManager") },
    }
end

function GetReplicas(desiredObj)
    local job, task = requirements(desiredObj, "jobManager"), requirements(desiredObj, "taskManager")
    local both = {
        nodeClaim = at(task, "nodeClaim") or at(job, "nodeClaim"),
        resourceRequest = {
            cpu = larger(at(job, "resourceRequest", "cpu"), at(task, "resourceRequest", "cpu")),
            memory = larger(at(job, "resourceRequest", "memory"), at(task, "resourceRequest", "memory")),
        },
    }
    return job_managers(desiredObj) + task_managers(desiredObj), both
end

local early = { CREATED = true, INITIALIZING = true, RECONCILING = true }
local lasting = {
    RUNNING = true,
    FINISHED = true,
    CANCELED = true,
    FAILED = true,
    SUSPENDED = true,
    RESTARTING = true,
    CANCELLING = true,
    FAILING = true,
}

function InterpretHealth(observedObj)
    local status = observedObj.status or {}
    local state = at(status, "jobStatus", "state")
    if not filled(state) then
        return status.jobManagerDeploymentStatus == "READY" and status.lifecycleState == "STABLE"
    end
    if early[state] then
        -- Another cluster does not help: the image or the program is at fault.
        local problem = status.error or ""
        for _, sign in ipairs({ "ImagePullBackOff", "ErrImagePull", "CrashLoopBackOff" }) do
            if problem:find(sign, 1, true) then
                return true
            end
        end
        return false
    end
    return lasting[state] == true
end

local fields = {
    "clusterInfo",
    "error",
    "jobManagerDeploymentStatus",
    "jobStatus",
    "lifecycleState",
    "observedGeneration",
    "reconciliationStatus",
    "taskManager",
}

function AggregateStatus(desiredObj, statusItems)
    take_last(desiredObj, statusItems, fields)
    return desiredObj
end

function ReflectStatus(observedObj)
    local status = {}
    for _, field in ipairs(fields) do
        status[field] = at(observedObj, "status", field)
    end
    return status
end
