-- apps.kruise.io BroadcastJob

local counters = { "active", "succeeded", "failed", "desired" }

function GetReplicas(desiredObj)
    -- A percentage of nodes is not a number of replicas.
    return tonumber(at(desiredObj, "spec", "parallelism")) or 1, needs(at(desiredObj, "spec", "template"))
end

function ReviseReplica(desiredObj, desiredReplica)
    if at(desiredObj, "spec", "parallelism") ~= nil then
        desiredObj.spec.parallelism = desiredReplica
    end
    return desiredObj
end

function InterpretHealth(observedObj)
    local status = observedObj.status or {}
    return number(status.desired) ~= 0
        and number(status.failed) == 0
        and (number(status.succeeded) > 0 or number(status.active) > 0)
end

function AggregateStatus(desiredObj, statusItems)
    add_up(desiredObj, statusItems, counters)
    local failed, complete = clusters_with(statusItems, "Failed"), clusters_with(statusItems, "Complete")
    if #failed > 0 then
        set_condition(desiredObj, {
            type = "Failed",
            status = "True",
            reason = "JobFailed",
            message = "Job executed failed in member clusters " .. table.concat(failed, ","),
        })
    else
        unset_condition(desiredObj, statusItems, "Failed", "JobNotFailed")
    end
    if #complete > 0 and #complete == #statusItems then
        set_condition(desiredObj, {
            type = "Complete",
            status = "True",
            reason = "Completed",
            message = "Job completed",
        })
    else
        unset_condition(desiredObj, statusItems, "Complete", "NotCompleted")
    end
    local status = status_of(desiredObj)
    status.startTime = pick_time(statusItems, "startTime", true) or status.startTime
    if #complete == #statusItems then
        status.completionTime = pick_time(statusItems, "completionTime") or status.completionTime
    end
    return desiredObj
end

function ReflectStatus(observedObj)
    local from, status = observedObj.status or {}, {}
    for _, field in ipairs({ "active", "succeeded", "failed", "desired", "conditions", "startTime", "completionTime", "phase" }) do
        status[field] = from[field]
    end
    return status
end

function Retain(desiredObj, observedObj)
    local labels = at(observedObj, "spec", "template", "metadata", "labels")
    if labels ~= nil and at(desiredObj, "spec", "template") ~= nil then
        if desiredObj.spec.template.metadata == nil then
            desiredObj.spec.template.metadata = {}
        end
        desiredObj.spec.template.metadata.labels = labels
    end
    return desiredObj
end

function GetDependencies(desiredObj)
    return pods_refer(desiredObj, at(desiredObj, "spec", "template"))
end
