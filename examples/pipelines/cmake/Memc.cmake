# Plans of ONNX models as steps of a build. Needs memc on the search path, or MEMC_PROGRAM.
#
#   memc_add_layout(TARGET MODEL [BUDGET SIZE] [OPTIONS ...])
#     plans MODEL, writes NAME.planned.onnx and the header NAME.h into the build folder, and adds the header to
#     TARGET. A change of the model, its weights or the target file plans again.
#   memc_add_limit(NAME MODEL [MAX_ARENA SIZE] [MAX_WEIGHTS SIZE] [OPTIONS ...])
#     adds a test that fails if the model needs more.
cmake_minimum_required(VERSION 3.20)
find_program(MEMC_PROGRAM memc REQUIRED)

function(memc_add_layout target model)
    cmake_parse_arguments(PARSE_ARGV 2 memc "" "BUDGET" "OPTIONS")
    cmake_path(ABSOLUTE_PATH model BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    cmake_path(GET model STEM name)
    set(planned "${CMAKE_CURRENT_BINARY_DIR}/${name}.planned.onnx")
    set(header "${CMAKE_CURRENT_BINARY_DIR}/${name}.h")
    if(memc_BUDGET)
        list(APPEND memc_OPTIONS "--budget=${memc_BUDGET}")
    endif()
    add_custom_command(
        OUTPUT "${header}" "${planned}"
        COMMAND "${MEMC_PROGRAM}" --quiet optimize "${model}" -o "${planned}" --layout "${header}"
                --depfile "${header}.d" ${memc_OPTIONS}
        MAIN_DEPENDENCY "${model}"
        DEPFILE "${header}.d"
        VERBATIM)
    target_sources("${target}" PRIVATE "${header}")
    target_include_directories("${target}" PRIVATE "${CMAKE_CURRENT_BINARY_DIR}")
endfunction()

function(memc_add_limit name model)
    cmake_parse_arguments(PARSE_ARGV 2 memc "" "MAX_ARENA;MAX_WEIGHTS" "OPTIONS")
    cmake_path(ABSOLUTE_PATH model BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    if(memc_MAX_ARENA)
        list(APPEND memc_OPTIONS "--max-arena=${memc_MAX_ARENA}")
    endif()
    if(memc_MAX_WEIGHTS)
        list(APPEND memc_OPTIONS "--max-weights=${memc_MAX_WEIGHTS}")
    endif()
    add_test(NAME "${name}" COMMAND "${MEMC_PROGRAM}" report "${model}" ${memc_OPTIONS})
endfunction()
