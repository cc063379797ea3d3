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

-- One replica is the head. The rest is divided in proportion to the pods of the groups, remainders to the largest
-- fractions: the sum is exact unless replicas of several hosts do not fit, and no group is negative.
function ReviseReplica(desiredObj, desiredReplica)
    local groups, all = worker_groups(cluster(desiredObj)), 0
    if #groups == 0 then
        return desiredObj
    end
    local wanted = math.max(desiredReplica - 1, 0)
    for _, group in ipairs(groups) do
        all = all + worker_replicas(group) * hosts_of(group)
    end
    local given, rest = 0, {}
    for i, group in ipairs(groups) do
        local hosts = hosts_of(group)
        local share = (all > 0 and wanted * worker_replicas(group) * hosts / all or wanted / #groups) / hosts
        rest[i] = { index = i, left = share - math.floor(share) }
        group.replicas = math.floor(share)
        given = given + group.replicas * hosts
    end
    table.sort(rest, function(a, b)
        if a.left ~= b.left then
            return a.left > b.left
        end
        return a.index < b.index
    end)
    local added = true
    while added do
        added = false
        for _, of in ipairs(rest) do
            local group = groups[of.index]
            if given + hosts_of(group) <= wanted then
                group.replicas = group.replicas + 1
                given = given + hosts_of(group)
                added = true
            end
        end
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
    -- KubeRay before 1.3 reports a status only.
    if not filled(at(observedObj, "status", "conditions")) then
        return at(observedObj, "status", "serviceStatus") == "Running"
    end
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
    add_up_reported(desiredObj, statusItems, { "numServeEndpoints" })
    local status, applications = status_of(desiredObj), {}
    for _, item in ipairs(list) do
        for name, application in pairs(at(item.status, "activeServiceStatus", "applicationStatuses") or {}) do
            local known = applications[name] or {}
            known.status = worse(known.status, application.status)
            applications[name] = known
        end
    end
    if next(applications) ~= nil then
        status.activeServiceStatus = { applicationStatuses = applications }
    end
    take_last(desiredObj, statusItems, { "serviceStatus" })
    -- The schema declares conditions as a map by type.
    local conditions = conditions_by_type(statusItems, function(of)
        return of.conditions
    end)
    if #conditions > 0 then
        status.conditions = conditions
    end
    return desiredObj
end

function GetDependencies(desiredObj)
    return ray_dependencies(desiredObj, cluster(desiredObj))
end
