# bash completion for xsched-session(1)                    -*- shell-script -*-
# SPDX-License-Identifier: LGPL-2.1-or-later

_xsched_session() {
        local options='--policy= --config= --log-level= --shim= --help -h --version'
        local line=${COMP_LINE:0:COMP_POINT} cur='' word skip='' command=0
        local -a words
        read -ra words <<<"$line"
        if [[ $line != *[[:space:]] ]]; then
                cur=${words[-1]}
                unset 'words[-1]'
        fi

        # The command is the first word that is not an option, or the word after "--".
        for word in "${words[@]:1}"; do
                if [[ -n $skip ]]; then
                        skip=''
                elif [[ $word == --policy || $word == --config || $word == --log-level || $word == --shim ]]; then
                        skip=$word
                elif [[ $word == -- && $command == 0 ]]; then
                        command=1
                elif [[ $word != -* || $command != 0 ]]; then
                        command=2
                fi
        done

        if [[ $command == 0 && $cur == --*=* ]]; then
                skip=${cur%%=*} cur=${cur#*=}
        fi
        case $skip in
        --shim) mapfile -t COMPREPLY < <(compgen -W 'layer preload none' -- "$cur") ;;
        --log-level) mapfile -t COMPREPLY < <(compgen -W 'emerg alert crit err warning notice info debug' -- "$cur") ;;
        --config)
                mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                compopt -o filenames 2>/dev/null # readline quotes them
                ;;
        --policy)
                mapfile -t COMPREPLY < <({
                        echo tree
                        xschedctl --no-legend --no-pager list-policies 2>/dev/null | awk '{ print $1 }'
                } | awk -v cur="$cur" 'index($0, cur) == 1 && !seen[$0]++')
                ;;
        *)
                if [[ $command == 0 && $cur == -* ]]; then
                        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
                        [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
                elif [[ $command == 2 ]]; then
                        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                        compopt -o filenames 2>/dev/null
                else
                        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
                fi
                ;;
        esac
        return 0
}

complete -F _xsched_session xsched-session
