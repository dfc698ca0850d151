# bash completion for xsched-queues(1)                     -*- shell-script -*-
# SPDX-License-Identifier: LGPL-2.1-or-later

_xsched_queues() {
        local options='--hardware --usage --bus-address= --system --user --json= --no-legend --no-pager --full -l'
        options+=' --help -h --version'
        local line=${COMP_LINE:0:COMP_POINT} cur='' pid
        local -a words pids=()
        read -ra words <<<"$line"
        [[ $line != *[[:space:]] ]] && cur=${words[-1]}

        if [[ $cur == --json=* ]]; then
                mapfile -t COMPREPLY < <(compgen -W 'short pretty off' -- "${cur#*=}")
        elif [[ $cur == -* ]]; then
                mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
                [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
        else
                # The processes that have opened /dev/kfd.
                for pid in /sys/class/kfd/kfd/proc/[0-9]*; do
                        [[ -e $pid ]] && pids+=("${pid##*/}")
                done
                mapfile -t COMPREPLY < <(compgen -W "${pids[*]}" -- "$cur")
        fi
        return 0
}

complete -F _xsched_queues xsched-queues
