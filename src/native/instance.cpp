// Opening the Vulkan loader, creating the instance, listing physical devices.
#include "instance.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <mutex>
#include <sstream>

#include "checked_dispatch.hpp"
#include "errors.hpp"

namespace vkdml {
namespace {

constexpr const char* loader_name = "libvulkan.so.1";
constexpr const char* remedy = "install the Vulkan loader and a driver (on Debian and Ubuntu: apt install "
                               "libvulkan1 mesa-vulkan-drivers, or your GPU vendor's driver); "
                               "'vkdml doctor' tells what is missing";

struct Loader {
    void* handle = nullptr;
    std::string error;
};

// Opened once; a failure is tried again at the next call, since the user may have mended it.
Loader open_loader() {
    static std::mutex mutex;
    static Loader loader;
    std::lock_guard lock(mutex);
    if (loader.handle) return loader;
    loader.handle = dlopen(loader_name, RTLD_NOW | RTLD_LOCAL);
    if (!loader.handle) {
        const char* why = dlerror();
        loader.error = why ? why : "unknown reason";
        return loader;
    }
    auto get = PFN_vkGetInstanceProcAddr(dlsym(loader.handle, "vkGetInstanceProcAddr"));
    if (!get) {
        loader.error = std::string(loader_name) + " lacks vkGetInstanceProcAddr";
        dlclose(loader.handle);
        loader.handle = nullptr;
        return loader;
    }
    VULKAN_HPP_DEFAULT_DISPATCHER.init(get);
    loader.error.clear();
    return loader;
}

std::vector<std::string> split_paths(const char* list) {
    std::vector<std::string> parts;
    std::stringstream stream(list ? list : "");
    for (std::string part; std::getline(stream, part, ':');)
        if (!part.empty()) parts.push_back(part);
    return parts;
}

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

// The variable that names all manifests that the loader looks at; null where none is set. The loader follows
// one that is set but empty, too.
const char* forcing_variable() {
    for (const char* name : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"})
        if (std::getenv(name)) return name;
    return nullptr;
}

// The loader's search, as its documentation states it for Linux.
std::vector<std::string> find_icd_files() {
    namespace fs = std::filesystem;
    std::vector<std::string> roots;
    const char* only_named = forcing_variable();
    if (only_named) {
        roots = split_paths(environment(only_named).c_str());
    } else {
        roots = split_paths(environment("VK_ADD_DRIVER_FILES").c_str());
        auto add = [&](const std::string& base) { roots.push_back(base + "/vulkan/icd.d"); };
        std::string home = environment("HOME"), config_home = environment("XDG_CONFIG_HOME"),
                    data_home = environment("XDG_DATA_HOME"), config = environment("XDG_CONFIG_DIRS"),
                    data = environment("XDG_DATA_DIRS");
        add(config_home.empty() ? home + "/.config" : config_home);
        for (auto& path : split_paths(config.empty() ? "/etc/xdg" : config.c_str())) add(path);
        add("/etc");
        add(data_home.empty() ? home + "/.local/share" : data_home);
        for (auto& path : split_paths(data.empty() ? "/usr/local/share:/usr/share" : data.c_str())) add(path);
    }
    std::vector<std::string> files;
    for (auto& root : roots) {
        std::error_code error;
        if (fs::is_directory(root, error)) {
            fs::directory_iterator entry(root, error), end;
            for (; !error && entry != end; entry.increment(error))
                if (entry->path().extension() == ".json") files.push_back(entry->path().string());
        } else if (only_named || fs::is_regular_file(root, error)) {
            files.push_back(root);
        }
    }
    return files;
}

std::optional<NamedDrivers> named_drivers() {
    const char* variable = forcing_variable();
    if (!variable) return std::nullopt;
    std::string name = variable, named = environment(variable);
    if (split_paths(named.c_str()).empty())
        return NamedDrivers{name, name + " is set but empty, so the loader looks at no driver",
                            "unset it, or set it to the manifest (ICD file) of a driver"};
    return NamedDrivers{name, name + " names " + named + ", which gives no usable driver",
                        "unset it, or set it to a manifest whose library can be loaded"};
}

// What to do where no driver can be used.
std::string driver_remedy() {
    auto named = named_drivers();
    if (!named) return remedy;
    auto paths = split_paths(environment(named->variable.c_str()).c_str());
    for (auto& path : paths)
        if (std::error_code error; !std::filesystem::exists(path, error))
            return named->variable + " names " + path +
                   ", which does not exist: unset this variable, or set it to the manifest (ICD file) "
                   "of a driver; 'vkdml doctor' tells more";
    return named->fault + ": " + named->remedy + (paths.empty() ? "" : "; 'vkdml doctor' tells more");
}

uint32_t loader_version() {
    auto& dispatcher = VULKAN_HPP_DEFAULT_DISPATCHER;
    uint32_t version = VK_API_VERSION_1_0;
    if (dispatcher.vkEnumerateInstanceVersion &&
        dispatcher.vkEnumerateInstanceVersion(&version) != VK_SUCCESS)
        version = VK_API_VERSION_1_0;
    return version;
}

} // namespace

std::string version_string(uint32_t version) {
    return std::to_string(VK_API_VERSION_MAJOR(version)) + "." +
           std::to_string(VK_API_VERSION_MINOR(version)) + "." +
           std::to_string(VK_API_VERSION_PATCH(version));
}

LoaderReport report_loader() {
    LoaderReport report;
    report.icd_files = find_icd_files();
    report.named_drivers = named_drivers();
    Loader loader = open_loader();
    report.error = loader.error;
    if (!loader.handle) return report;
    report.path = loader_name;
    Dl_info found;
    if (dladdr(dlsym(loader.handle, "vkGetInstanceProcAddr"), &found) && found.dli_fname)
        report.path = found.dli_fname;
    if (in_forked_child()) {
        report.error = "this process was forked after Vulkan was in use";
        return report;
    }
    report.api_version = version_string(loader_version());
    uint32_t count = 0;
    auto& dispatcher = VULKAN_HPP_DEFAULT_DISPATCHER;
    if (dispatcher.vkEnumerateInstanceLayerProperties(&count, nullptr) != VK_SUCCESS) return report;
    std::vector<VkLayerProperties> layers(count);
    if (dispatcher.vkEnumerateInstanceLayerProperties(&count, layers.data()) < 0) return report;
    for (uint32_t i = 0; i < count; i++) report.layers.push_back(layers[i].layerName);
    return report;
}

void refuse_forked_child() {
    if (in_forked_child())
        throw DeviceError(
            "this process was forked after Vulkan was in use, and Vulkan does not survive fork(): "
            "start workers with multiprocessing's 'spawn' or 'forkserver' method, or import and "
            "use vkdml in the child only");
}

vk::Instance instance() {
    static std::mutex mutex;
    static vk::Instance created;
    refuse_forked_child();
    std::lock_guard lock(mutex);
    if (created) return created;
    Loader loader = open_loader();
    if (!loader.handle) throw NoDeviceError("no Vulkan loader (" + loader.error + "): " + remedy);
    uint32_t version = loader_version();
    if (version < VK_API_VERSION_1_1)
        throw NoDeviceError("the Vulkan loader offers version " + version_string(version) +
                            ", vkdml needs 1.1 or newer: " + remedy);
    vk::ApplicationInfo application("vkdml", 1, "vkdml", 1, VK_API_VERSION_1_1);
    vk::Instance made;
    try {
        made = vk::createInstance(vk::InstanceCreateInfo({}, &application));
    } catch (const vk::IncompatibleDriverError&) {
        throw NoDeviceError(std::string("the Vulkan loader found no usable driver: ") + driver_remedy());
    } catch (const vk::OutOfHostMemoryError&) {
        // What the loader returns for a manifest that it cannot parse, too; Python finds which.
        throw NoDeviceError("the Vulkan loader ran out of memory, or cannot read the manifest of a driver: "
                            "end other programs; 'vkdml doctor' tells more");
    } catch (const vk::LayerNotPresentError& error) {
        throw NoDeviceError(
            std::string("a Vulkan layer that the environment asks for (VK_INSTANCE_LAYERS) is "
                        "not installed: ") +
            error.what());
    }
    VULKAN_HPP_DEFAULT_DISPATCHER.init(made);
    install_checked_dispatch();
    watch_for_fork();
    created = made;
    return created;
}

std::vector<vk::PhysicalDevice> physical_devices() {
    std::vector<vk::PhysicalDevice> devices;
    try {
        devices = instance().enumeratePhysicalDevices();
    } catch (const vk::InitializationFailedError& error) {
        throw NoDeviceError(std::string("the Vulkan drivers could not be started (") + error.what() +
                            "): " + driver_remedy());
    }
    if (devices.empty())
        throw NoDeviceError(std::string("no Vulkan driver offers a device: ") + driver_remedy());
    return devices;
}

} // namespace vkdml
