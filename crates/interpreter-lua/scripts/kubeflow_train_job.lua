-- trainer.kubeflow.org TrainJob

-- The nodes are one group of pods that train together: a job is placed as a whole.
function GetComponents(desiredObj)
    local trainer = at(desiredObj, "spec", "trainer") or {}
    -- Containers are named by the runtime; only their sum matters here.
    local pod = { spec = { containers = { { name = "node", resources = trainer.resourcesPerNode } } } }
    return { { name = "node", replicas = number(trainer.numNodes or 1), replicaRequirements = needs(pod) } }
end

function InterpretHealth(observedObj)
    return not is_true(observedObj.status, "Failed")
end

function AggregateStatus(desiredObj, statusItems)
    local list = reports(statusItems)
    if #list == 1 and #statusItems == 1 then
        desiredObj.status = list[1].status
        return desiredObj
    end
    local jobs, by_name = {}, {}
    for _, item in ipairs(list) do
        for _, job in ipairs(item.status.jobsStatus or {}) do
            local sum = by_name[job.name]
            if sum == nil then
                sum = { name = job.name, active = 0, failed = 0, ready = 0, succeeded = 0, suspended = 0 }
                by_name[job.name] = sum
                jobs[#jobs + 1] = sum
            end
            for _, field in ipairs({ "active", "failed", "ready", "succeeded", "suspended" }) do
                sum[field] = sum[field] + number(job[field])
            end
        end
    end
    local conditions = conditions_by_type(statusItems, function(of)
        return of.conditions
    end)
    local status = status_of(desiredObj)
    status.jobsStatus = #jobs > 0 and jobs or status.jobsStatus
    status.conditions = #conditions > 0 and conditions or status.conditions
    return desiredObj
end

function ReflectStatus(observedObj)
    return observedObj.status or {}
end
