# bash completion for xschedctl(1)                         -*- shell-script -*-
# SPDX-License-Identifier: LGPL-2.1-or-later

# First column of a list, of the service that the command line so far names.
__xschedctl_list() {
        xschedctl --no-legend --no-pager --full "${bus[@]}" "$1" 2>/dev/null | awk '{ print $1 }'
}

__xschedctl_targets() {
        __xschedctl_list list-groups
        __xschedctl_list list-clients | sed 's/^/client:/'
        __xschedctl_list list-queues | sed 's/^/queue:/'
        __xschedctl_list list-devices | sed 's/^/device:/'
        echo device:all
}

__xschedctl_pids() {
        xschedctl --no-legend --no-pager --full "${bus[@]}" list-clients 2>/dev/null | awk '{ print $2 }'
}

# KEY=VALUE of `set`; $1 is the target.
__xschedctl_settings() {
        case $cur in
        class=*) __xschedctl_list list-classes | sed 's/^/class=/' ;;
        policy=*) __xschedctl_list list-policies | sed 's/^/policy=/' ;;
        *=*) ;;
        *)
                if [[ $1 == device:* ]]; then
                        printf '%s=\n' policy concurrency timeslice threshold preemption accounting linger starve starverun
                else
                        printf '%s=\n' class priority weight threshold preemption gang
                        [[ $1 == client:* || $1 == queue:* ]] || printf '%s=\n' max min period accounting
                fi
                ;;
        esac
}

# Values of an option that takes one: --NAME=VALUE.
__xschedctl_values() {
        case $1 in
        --json) echo short pretty off ;;
        --shim) echo layer preload none ;;
        --sort) echo gpu wait launches preempted name ;;
        --host | -H) compgen -A hostname ;;
        --machine | -M) echo .host; machinectl --no-legend --no-pager list 2>/dev/null | awk '{ print $1 }' ;;
        --class) __xschedctl_list list-classes ;;
        --slice) systemctl --no-legend --no-pager --plain --all list-units --type=slice 2>/dev/null | awk '{ print $1 }' ;;
        --uid) compgen -u ;;
        --gid) compgen -g ;;
        --working-directory) compgen -d ;;
        --output | -o) compgen -f ;;
        --device) __xschedctl_list list-devices ;;
        --since) echo 1min 5min 10min 15min ;;
        --property | -p) [[ -n $verb && $verb != run ]] && xschedctl --no-pager "${bus[@]}" show "${arguments[@]}" 2>/dev/null | sed 's/=.*//' ;;
        esac
}

_xschedctl() {
        local -a global=(--bus-address= --system --user --host= -H --machine= -M --no-ask-password --json= --no-legend --no-pager --full -l --help -h --version)
        local -A options=(
                [list-queues]='--kernel'
                [show]='--property= -p --value'
                [set]='--runtime --force'
                [run]='--class= --priority= --weight= --threshold= --name= --shim= --scope --service --unit= --slice= --description= --working-directory= --uid= --gid= --setenv= -E --property= -p --wait --pipe -P --pty -t --collect -G --quiet -q --verbose -v'
                [hold]='--why='
                [top]='--iterations= -n --delay= -d --batch -b --clients -c --sort='
                [plot]='--output= -o --since= --device='
        )
        local verbs='status list-devices list-groups list-clients list-queues list-policies list-classes list-holds list-settings show set
                reset suspend resume run hold top plot monitor explain check dump reload'
        # The words as the person sees them: bash splits at ":" and "=", too.
        local line=${COMP_LINE:0:COMP_POINT} cur='' verb='' word skip='' command='' class=''
        local -a words arguments=() bus=() replies
        read -ra words <<<"$line"
        if [[ $line != *[[:space:]] ]]; then
                cur=${words[-1]}
                unset 'words[-1]'
        fi

        for word in "${words[@]:1}"; do
                if [[ -n $skip ]]; then
                        [[ $skip == --bus-address ]] && bus=(--bus-address="$word")
                        [[ $skip == --host || $skip == -H ]] && bus=(--host="$word")
                        [[ $skip == --machine || $skip == -M ]] && bus+=(--machine="$word")
                        skip=''
                        continue
                fi
                case $word in
                --bus-address=* | --host=* | --system) bus=("$word") ;;
                --user | --machine=*) bus+=("$word") ;;
                --bus-address | --host | -H | --machine | -M | --json | --property | -p | --class | --priority | --weight | --threshold | --name | --shim | \
                        --unit | --slice | --description | --working-directory | --uid | --gid | --setenv | -E | --why | \
                        --iterations | -n | --delay | -d | --sort | --output | -o | --since | --device) skip=$word ;;
                --) [[ $verb == run || $verb == hold ]] && command=begun ;;
                -*) ;;
                *)
                        if [[ -z $verb ]]; then
                                verb=$word
                        else
                                # The first word after "hold" is the class, and none of the command's.
                                if [[ $verb == hold && -z $class ]]; then
                                        class=$word
                                        continue
                                fi
                                arguments+=("$word")
                                [[ $verb == run || $verb == hold ]] && command=begun
                        fi
                        ;;
                esac
        done

        if [[ -n $command ]]; then
                if ((${#arguments[@]} == 0)); then
                        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
                else
                        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                fi
                return
        fi

        if [[ -n $skip ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$(__xschedctl_values "$skip")" -- "$cur")
                return
        fi
        if [[ $cur == --*=* ]]; then
                mapfile -t replies < <(compgen -P "${cur%%=*}=" -W "$(__xschedctl_values "${cur%%=*}")" -- "${cur#*=}")
        elif [[ $cur == -* ]]; then
                mapfile -t replies < <(compgen -W "${global[*]} ${options[${verb:-none}]}" -- "$cur")
        elif [[ -z $verb ]]; then
                mapfile -t replies < <(compgen -W "$verbs" -- "$cur")
        else
                case $verb in
                status | show | reset | suspend | resume)
                        mapfile -t replies < <(compgen -W "$(__xschedctl_targets)" -- "$cur") ;;
                set)
                        if ((${#arguments[@]} == 0)); then
                                mapfile -t replies < <(compgen -W "$(__xschedctl_targets)" -- "$cur")
                        else
                                mapfile -t replies < <(compgen -W "$(__xschedctl_settings "${arguments[0]}")" -- "$cur")
                        fi
                        ;;
                explain)
                        ((${#arguments[@]} == 0)) &&
                                mapfile -t replies < <(compgen -W "$(__xschedctl_pids; __xschedctl_targets)" -- "$cur")
                        ;;
                check)
                        ((${#arguments[@]} == 0)) &&
                                mapfile -t replies < <(compgen -W "$(__xschedctl_pids)" -- "$cur")
                        ;;
                hold)
                        if [[ -z $class ]]; then
                                mapfile -t replies < <(compgen -W "$(__xschedctl_list list-classes)" -- "$cur")
                        else
                                mapfile -t replies < <(compgen -c -- "$cur")
                        fi
                        ;;
                run) mapfile -t replies < <(compgen -c -- "$cur") ;;
                esac
        fi

        # What bash already took for earlier words must not come again.
        local taken=''
        [[ $cur == *[:=]* ]] && taken=${cur%"${cur##*[:=]}"}
        COMPREPLY=("${replies[@]#"$taken"}")
        [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
        return 0
}

complete -F _xschedctl xschedctl
