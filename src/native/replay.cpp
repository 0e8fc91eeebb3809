// Recording the steps of a plan on buffers, where these have changed.
#include "replay.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace vkdml {

Replay::Replay(std::shared_ptr<Device> device, std::shared_ptr<Buffer> workspace, std::vector<Step> steps,
               std::vector<Result> results, uint32_t watched_words, double spin_us)
    : workspace_(std::move(workspace)), steps_(std::move(steps)), results_(std::move(results)),
      watched_words_(watched_words), spin_us_(spin_us), sequence_(std::move(device), 0, false) {
    for (const Step& step : steps_)
        for (const Place& place : step.places)
            if (place.region < Place::workspace || (place.region == Place::workspace && !workspace_))
                throw std::invalid_argument("a binding takes region " + std::to_string(place.region) +
                                            ", which there is not");
}

void Replay::submit(const std::vector<Region>& regions, bool watched) {
    const auto same = [](const Region& region, const std::pair<uint64_t, uint64_t>& before) {
        return region.first->id() == before.first && region.second == before.second;
    };
    if (recorded_.empty() || regions.size() != recorded_.size() ||
        !std::equal(regions.begin(), regions.end(), recorded_.begin(), same)) {
        const bool alike = depend_alike(regions) && sequence_.device()->info().update_after_bind;
        recorded_.clear(); // what fails half-way is recorded anew
        if (alike)
            sequence_.rebind(bindings(regions));
        else
            record(regions);
        for (const auto& [buffer, offset] : regions) recorded_.emplace_back(buffer->id(), offset);
    }
    held_.clear();
    for (const auto& region : regions) held_.push_back(region.first);
    if (watched_words_ && !regions.empty())
        sequence_.watch(*regions.back().first, watched ? watched_words_ : 0);
    if (workspace_) held_.push_back(workspace_.get());
    sequence_.submit(held_);
}

bool Replay::depend_alike(const std::vector<Region>& regions) const {
    if (recorded_.empty() || regions.size() != recorded_.size()) return false;
    for (size_t i = 0; i < regions.size(); i++)
        for (size_t j = 0; j < i; j++)
            if ((regions[i].first->id() == regions[j].first->id()) !=
                (recorded_[i].first == recorded_[j].first))
                return false;
    return true;
}

std::vector<std::vector<Binding>> Replay::bindings(const std::vector<Region>& regions) const {
    std::vector<std::vector<Binding>> all;
    for (const Step& step : steps_) {
        all.emplace_back();
        for (const auto& [region, written] : step.places) {
            if (region >= int(regions.size()))
                throw std::invalid_argument("the steps take region " + std::to_string(region) + " of " +
                                            std::to_string(regions.size()));
            if (region == Place::workspace)
                all.back().push_back({workspace_.get(), 0, written});
            else
                all.back().push_back(
                    {regions[size_t(region)].first, regions[size_t(region)].second, written});
        }
    }
    return all;
}

void Replay::record(const std::vector<Region>& regions) {
    sequence_.clear();
    const auto all = bindings(regions);
    for (size_t i = 0; i < steps_.size(); i++)
        sequence_.dispatch(steps_[i].kernel, all[i], steps_[i].push, {steps_[i].workgroups, 1, 1});
}

} // namespace vkdml
