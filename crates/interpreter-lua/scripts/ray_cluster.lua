-- ray.io RayCluster

local counters = { "availableWorkerReplicas", "desiredWorkerReplicas", "minWorkerReplicas", "maxWorkerReplicas", "readyWorkerReplicas" }
local amounts = { "desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU" }

function GetComponents(desiredObj)
    return ray_components(desiredObj.spec)
end

function InterpretHealth(observedObj)
    local status = observedObj.status
    -- KubeRay before 1.3 reports a state only.
    if not filled(at(status, "conditions")) then
        return at(status, "state") == "ready"
    end
    return is_true(status, "HeadPodReady")
        and is_true(status, "RayClusterProvisioned")
        and not is_true(status, "RayClusterReplicaFailure")
        and not is_true(status, "ReplicaFailure")
end

function AggregateStatus(desiredObj, statusItems)
    local list = reports(statusItems)
    if #list == 1 and #statusItems == 1 then
        desiredObj.status = list[1].status
        return desiredObj
    end
    local status = status_of(desiredObj)
    for _, field in ipairs(counters) do
        local sum, told = 0, false
        for _, item in ipairs(list) do
            told = told or item.status[field] ~= nil
            sum = sum + number(item.status[field])
        end
        status[field] = told and sum or nil
    end
    for _, field in ipairs(amounts) do
        local sum = nil
        for _, item in ipairs(list) do
            if item.status[field] ~= nil then
                sum = kube.resourceAdd(sum, item.status[field])
            end
        end
        status[field] = sum
    end
    status.lastUpdateTime = pick_time(statusItems, "lastUpdateTime")
    for _, field in ipairs({ "endpoints", "head", "state" }) do
        local first = nil
        for _, item in ipairs(list) do
            if first == nil and filled(item.status[field]) then
                first = item.status[field]
            end
        end
        status[field] = first
    end
    return desiredObj
end
