-- argoproj.io Rollout

local counters = { "HPAReplicas", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas" }
local texts = { "currentPodHash", "currentStepHash", "currentStepIndex", "selector", "stableRS" }

local function replicas_of(object)
    return number(at(object, "spec", "replicas") or 1)
end

function GetReplicas(desiredObj)
    return replicas_of(desiredObj), needs(at(desiredObj, "spec", "template"))
end

function ReviseReplica(desiredObj, desiredReplica)
    if desiredObj.spec ~= nil then
        desiredObj.spec.replicas = desiredReplica
    end
    return desiredObj
end

-- A rollout waits at a step, for hours if need be: it is healthy as long as its replicas are there.
function InterpretHealth(observedObj)
    local status = observedObj.status or {}
    if number(status.observedGeneration) ~= number(at(observedObj, "metadata", "generation")) then
        return false
    elseif status.phase == "Healthy" or status.phase == "Paused" then
        return true
    end
    return status.phase == "Progressing" and number(status.availableReplicas) >= replicas_of(observedObj)
end

-- Worst first.
local phases = { "Degraded", "Progressing", "Paused", "Healthy" }

function AggregateStatus(desiredObj, statusItems)
    add_up(desiredObj, statusItems, counters)
    take_last(desiredObj, statusItems, texts)
    local status, found = desiredObj.status, nil
    for _, phase in ipairs(phases) do
        local clusters = {}
        for _, item in ipairs(reports(statusItems)) do
            if item.status.phase == phase then
                clusters[#clusters + 1] = item.clusterName .. "=" .. tostring(item.status.message or "")
            end
        end
        if found == nil and #clusters > 0 then
            found = phase
            status.message = table.concat(clusters, ", ")
        end
    end
    status.phase = found or status.phase
    observe_generation(desiredObj, statusItems)
    -- The schema wants a text.
    if status.observedGeneration ~= nil then
        status.observedGeneration = tostring(status.observedGeneration)
    end
    return desiredObj
end

function ReflectStatus(observedObj)
    local fields = { "phase", "message" }
    copy_list(counters, fields)
    copy_list(texts, fields)
    return reflect(observedObj, fields)
end

function GetDependencies(desiredObj)
    local list = pods_refer(desiredObj, at(desiredObj, "spec", "template"))
    local strategy, of = at(desiredObj, "spec", "strategy"), at(desiredObj, "spec", "workloadRef")
    if filled(at(of, "name")) then
        list[#list + 1] = {
            apiVersion = of.apiVersion,
            kind = of.kind,
            namespace = at(desiredObj, "metadata", "namespace"),
            name = of.name,
        }
    end
    for _, service in ipairs({ "stableService", "canaryService" }) do
        refer(list, desiredObj, "Service", at(strategy, "canary", service))
    end
    for _, service in ipairs({ "activeService", "previewService" }) do
        refer(list, desiredObj, "Service", at(strategy, "blueGreen", service))
    end
    return list
end
