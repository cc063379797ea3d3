-- kubeflow.org v1 jobs of the training operator

local kinds = {
    JAXJob = { field = "jaxReplicaSpecs", types = { "Worker" } },
    MPIJob = { field = "mpiReplicaSpecs", types = { "Launcher", "Worker" } },
    PaddleJob = { field = "paddleReplicaSpecs", types = { "Master", "Worker" } },
    PyTorchJob = { field = "pytorchReplicaSpecs", types = { "Master", "Worker" } },
    XGBoostJob = { field = "xgbReplicaSpecs", types = { "Master", "Worker" } },
    TFJob = { field = "tfReplicaSpecs", types = { "PS", "Worker", "Chief", "Master", "Evaluator" } },
}

-- The replica types that an object uses, in a fixed order.
local function replica_types(object)
    local kind, found = kinds[object.kind], {}
    for _, name in ipairs(kind.types) do
        local of = at(object, "spec", kind.field, name)
        if of ~= nil then
            found[#found + 1] = { name = name, of = of }
        end
    end
    return found
end

function GetComponents(desiredObj)
    local components = {}
    for i, replica in ipairs(replica_types(desiredObj)) do
        components[i] = {
            name = replica.name:lower(),
            replicas = number(replica.of.replicas or 1),
            replicaRequirements = needs(replica.of.template),
        }
    end
    return components
end

function InterpretHealth(observedObj)
    return not is_true(observedObj.status, "Failed")
end

function AggregateStatus(desiredObj, statusItems)
    local status, list = status_of(desiredObj), reports(statusItems)
    status.startTime = pick_time(statusItems, "startTime", true) or status.startTime
    local sums = {}
    for _, item in ipairs(list) do
        for name, of in pairs(item.status.replicaStatuses or {}) do
            sums[name] = sums[name] or { active = 0, failed = 0, succeeded = 0 }
            for _, field in ipairs({ "active", "failed", "succeeded" }) do
                sums[name][field] = sums[name][field] + number(of[field])
            end
        end
    end
    if next(sums) ~= nil then
        status.replicaStatuses = sums
    end
    local function tell(kind, reason, message)
        set_condition(desiredObj, { type = kind, status = "True", reason = reason, message = message })
    end
    local created, running = clusters_with(statusItems, "Created"), clusters_with(statusItems, "Running")
    local failed, succeeded = clusters_with(statusItems, "Failed"), clusters_with(statusItems, "Succeeded")
    if #created > 0 then
        tell("Created", "JobCreated", "created in member clusters " .. table.concat(created, ","))
    end
    if #running > 0 then
        tell("Running", "JobRunning", "running in member clusters " .. table.concat(running, ","))
    else
        unset_condition(desiredObj, statusItems, "Running", "JobNotRunning")
    end
    if #failed > 0 then
        tell("Failed", "JobFailed", "failed in member clusters " .. table.concat(failed, ","))
    else
        unset_condition(desiredObj, statusItems, "Failed", "JobNotFailed")
    end
    if #failed == 0 and #succeeded > 0 and #succeeded == #statusItems then
        tell("Succeeded", "JobSucceeded", "succeeded in all member clusters")
    else
        unset_condition(desiredObj, statusItems, "Succeeded", "JobNotSucceeded")
    end
    if #failed + #succeeded > 0 and #failed + #succeeded == #statusItems then
        status.completionTime = pick_time(statusItems, "completionTime") or status.completionTime
    end
    return desiredObj
end

function GetDependencies(desiredObj)
    local list = {}
    for _, replica in ipairs(replica_types(desiredObj)) do
        copy_list(pods_refer(desiredObj, replica.of.template), list)
    end
    return list
end
