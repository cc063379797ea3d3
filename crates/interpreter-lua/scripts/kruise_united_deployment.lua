-- apps.kruise.io UnitedDeployment

local counters = { "replicas", "readyReplicas", "updatedReplicas", "updatedReadyReplicas" }

-- The pod template is inside the template of one of several kinds.
local function pod_template(object)
    local template = at(object, "spec", "template")
    for _, kind in ipairs({ "statefulSetTemplate", "advancedStatefulSetTemplate", "cloneSetTemplate", "deploymentTemplate" }) do
        local found = at(template, kind, "spec", "template")
        if found ~= nil then
            return found
        end
    end
    return template
end

function GetReplicas(desiredObj)
    return number(at(desiredObj, "spec", "replicas")), needs(pod_template(desiredObj))
end

function ReviseReplica(desiredObj, desiredReplica)
    if at(desiredObj, "spec", "replicas") ~= nil then
        desiredObj.spec.replicas = desiredReplica
    end
    return desiredObj
end

function InterpretHealth(observedObj)
    local status, replicas = observedObj.status or {}, at(observedObj, "spec", "replicas")
    return number(status.observedGeneration) == number(at(observedObj, "metadata", "generation"))
        and (replicas == nil or number(status.updatedReplicas) >= replicas)
        and number(status.readyReplicas) >= number(status.updatedReplicas)
end

function AggregateStatus(desiredObj, statusItems)
    add_up(desiredObj, statusItems, counters)
    take_last(desiredObj, statusItems, { "currentRevision", "updateStatus" })
    local merged, place = {}, {}
    for _, item in ipairs(reports(statusItems)) do
        for _, condition in ipairs(item.status.conditions or {}) do
            local known = place[condition.type]
            if known == nil then
                merged[#merged + 1] = condition
                place[condition.type] = #merged
            elseif (condition.lastTransitionTime or "") > (merged[known].lastTransitionTime or "") then
                merged[known] = condition
            end
        end
    end
    if #merged > 0 then
        desiredObj.status.conditions = merged
    end
    observe_generation(desiredObj, statusItems)
    return desiredObj
end

function ReflectStatus(observedObj)
    local fields = { "currentRevision", "updateStatus", "conditions" }
    copy_list(counters, fields)
    return reflect(observedObj, fields)
end

function GetDependencies(desiredObj)
    return pods_refer(desiredObj, pod_template(desiredObj))
end
