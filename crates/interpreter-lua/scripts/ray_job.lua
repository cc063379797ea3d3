-- ray.io RayJob

-- Worst first; unlisted states are better than all of these.
local of_job = { "FAILED", "STOPPED", "PENDING", "RUNNING", "SUCCEEDED" }
local of_deployment = { "Failed", "ValidationFailed", "Suspending", "Suspended", "Retrying", "Waiting", "Initializing", "New", "Running", "Complete" }

local function worst(items, field, order)
    for _, wanted in ipairs(order) do
        for _, item in ipairs(items) do
            if item.status[field] == wanted then
                return wanted
            end
        end
    end
    return nil
end

function GetComponents(desiredObj)
    return ray_components(at(desiredObj, "spec", "rayClusterSpec"))
end

function InterpretHealth(observedObj)
    local status = observedObj.status or {}
    return status.jobDeploymentStatus == "Running"
        or (status.jobDeploymentStatus == "Complete" and status.jobStatus == "SUCCEEDED")
end

function AggregateStatus(desiredObj, statusItems)
    local list = reports(statusItems)
    if #list == 1 and #statusItems == 1 then
        desiredObj.status = list[1].status
        return desiredObj
    end
    local status = status_of(desiredObj)
    status.jobStatus = worst(list, "jobStatus", of_job)
    status.jobDeploymentStatus = worst(list, "jobDeploymentStatus", of_deployment)
    status.startTime = pick_time(statusItems, "startTime", true)
    status.endTime = pick_time(statusItems, "endTime")
    add_up_reported(desiredObj, statusItems, { "succeeded", "failed" })
    return desiredObj
end

function GetDependencies(desiredObj)
    return ray_dependencies(desiredObj, at(desiredObj, "spec", "rayClusterSpec"), at(desiredObj, "spec", "submitterPodTemplate"))
end
