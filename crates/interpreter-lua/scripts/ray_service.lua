-- ray.io RayService

local function cluster(object)
    return at(object, "spec", "rayClusterConfig")
end

function GetReplicas(desiredObj)
    local replicas, both = 0, {}
    for _, component in ipairs(ray_components(cluster(desiredObj))) do
        replicas = replicas + component.replicas
        local request = at(component, "replicaRequirements", "resourceRequest") or {}
        both.cpu = larger(both.cpu, request.cpu)
        both.memory = larger(both.memory, request.memory)
    end
    local claim = at(needs(at(cluster(desiredObj), "headGroupSpec", "template")), "nodeClaim")
    return replicas, { nodeClaim = claim, resourceRequest = both }
end

-- One replica is the head. The rest is divided in proportion to the groups, remainders to the largest fractions:
-- the sum is exact, and no group is negative.
function ReviseReplica(desiredObj, desiredReplica)
    local groups, all = worker_groups(cluster(desiredObj)), 0
    if #groups == 0 then
        return desiredObj
    end
    local wanted = math.max(desiredReplica - 1, 0)
    for _, group in ipairs(groups) do
        all = all + worker_replicas(group)
    end
    local given, rest = 0, {}
    for i, group in ipairs(groups) do
        local share = all > 0 and wanted * worker_replicas(group) / all or wanted / #groups
        rest[i] = { index = i, left = share - math.floor(share) }
        group.replicas = math.floor(share)
        given = given + group.replicas
    end
    table.sort(rest, function(a, b)
        if a.left ~= b.left then
            return a.left > b.left
        end
        return a.index < b.index
    end)
    for i = 1, wanted - given do
        local group = groups[rest[i].index]
        group.replicas = group.replicas + 1
    end
    for _, group in ipairs(groups) do
        if group.maxReplicas ~= nil and group.maxReplicas < group.replicas then
            group.maxReplicas = group.replicas
        end
        if group.minReplicas ~= nil and group.minReplicas > group.replicas then
            group.minReplicas = group.replicas
        end
    end
    return desiredObj
end

function InterpretHealth(observedObj)
    return is_true(observedObj.status, "Ready")
end

local order = { "DEPLOY_FAILED", "UNHEALTHY", "NOT_STARTED", "DEPLOYING", "DELETING", "RUNNING" }

local function worse(a, b)
    for _, wanted in ipairs(order) do
        if a == wanted or b == wanted then
            return wanted
        end
    end
    return a or b
end

function AggregateStatus(desiredObj, statusItems)
    local list = reports(statusItems)
    if #list == 1 and #statusItems == 1 then
        desiredObj.status = list[1].status
        return desiredObj
    end
    add_up(desiredObj, statusItems, { "numServeEndpoints" })
    local applications = {}
    for _, item in ipairs(list) do
        for name, application in pairs(at(item.status, "activeServiceStatus", "applicationStatuses") or {}) do
            local known = applications[name] or {}
            known.status = worse(known.status, application.status)
            applications[name] = known
        end
    end
    local status = desiredObj.status
    if next(applications) ~= nil then
        status.activeServiceStatus = { applicationStatuses = applications }
    end
    take_last(desiredObj, statusItems, { "serviceStatus" })
    merge_conditions(desiredObj, statusItems)
    return desiredObj
end

function GetDependencies(desiredObj)
    return ray_dependencies(desiredObj, cluster(desiredObj))
end
