-- Functions shared by CloneSet and StatefulSet of apps.kruise.io, which define the status fields `counters` and `texts`;
-- runs after shared.lua.

function GetReplicas(desiredObj)
    return number(at(desiredObj, "spec", "replicas")), needs(at(desiredObj, "spec", "template"))
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
        and number(status.availableReplicas) >= number(status.updatedReplicas)
end

function AggregateStatus(desiredObj, statusItems)
    add_up(desiredObj, statusItems, counters)
    take_last(desiredObj, statusItems, texts)
    observe_generation(desiredObj, statusItems)
    return desiredObj
end

function ReflectStatus(observedObj)
    local fields = {}
    copy_list(counters, fields)
    copy_list(texts, fields)
    return reflect(observedObj, fields)
end

function GetDependencies(desiredObj)
    local own = {}
    for _, claim in ipairs(at(desiredObj, "spec", "volumeClaimTemplates") or {}) do
        own[at(claim, "metadata", "name") or ""] = true
    end
    local list = {}
    for _, reference in ipairs(pods_refer(desiredObj, at(desiredObj, "spec", "template"))) do
        if reference.kind ~= "PersistentVolumeClaim" or not own[reference.name] then
            list[#list + 1] = reference
        end
    end
    return list
end
