-- apps.kruise.io AdvancedCronJob

function AggregateStatus(desiredObj, statusItems)
    local active = {}
    for _, item in ipairs(reports(statusItems)) do
        copy_list(item.status.active, active)
    end
    local status = status_of(desiredObj)
    status.active = #active > 0 and active or nil
    take_last(desiredObj, statusItems, { "type" })
    status.lastScheduleTime = pick_time(statusItems, "lastScheduleTime") or status.lastScheduleTime
    return desiredObj
end

function GetDependencies(desiredObj)
    local of = at(desiredObj, "spec", "template") or {}
    return pods_refer(
        desiredObj,
        at(of, "jobTemplate", "spec", "template"),
        at(of, "broadcastJobTemplate", "spec", "template")
    )
end
