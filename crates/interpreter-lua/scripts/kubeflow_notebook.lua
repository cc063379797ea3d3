-- kubeflow.org Notebook

function GetReplicas(desiredObj)
    return 1, needs(at(desiredObj, "spec", "template"))
end

function InterpretHealth(observedObj)
    local state = at(observedObj, "status", "containerState") or {}
    if state.running ~= nil then
        return true
    elseif state.waiting ~= nil then
        return state.waiting.reason == "ContainerCreating"
    elseif state.terminated ~= nil then
        return number(state.terminated.exitCode) == 0
    end
    return false
end

function AggregateStatus(desiredObj, statusItems)
    add_up(desiredObj, statusItems, { "readyReplicas" })
    take_last(desiredObj, statusItems, { "containerState" })
    local failed, ready, waiting = {}, {}, {}
    for _, item in ipairs(reports(statusItems)) do
        local terminated = at(item.status, "containerState", "terminated")
        if terminated ~= nil and number(terminated.exitCode) ~= 0 then
            failed[#failed + 1] = item.clusterName
        elseif number(item.status.readyReplicas) > 0 then
            ready[#ready + 1] = item.clusterName
        else
            waiting[#waiting + 1] = item.clusterName
        end
    end
    if #failed > 0 then
        local message = "failed in member clusters " .. table.concat(failed, ",")
        set_condition(desiredObj, { type = "Failed", status = "True", reason = "NotebookFailed", message = message })
    else
        unset_condition(desiredObj, statusItems, "Failed", "NotebookNotFailed")
    end
    if #ready > 0 then
        local all = #ready == #statusItems
        local message = "ready in member clusters " .. table.concat(ready, ",")
        set_condition(desiredObj, { type = "Ready", status = all and "True" or "False", reason = all and "AllReady" or "SomeReady", message = message })
    elseif filled(condition_of(desiredObj.status, "Ready").reason) and #reports(statusItems) > 0 then
        set_condition(desiredObj, { type = "Ready", status = "False", reason = "NoneReady", message = "" })
    end
    return desiredObj
end

function ReflectStatus(observedObj)
    local status = {}
    for _, field in ipairs({ "readyReplicas", "containerState", "conditions" }) do
        status[field] = at(observedObj, "status", field)
    end
    return status
end
